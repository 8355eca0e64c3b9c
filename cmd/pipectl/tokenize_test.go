package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenize(t *testing.T) {
	emptyTemp(t)
	line := succeed(t, "", "tokenize", "Once upon a time")
	require.Regexp(t, `^1( \d+)+\n$`, line, "the start of a text goes first")
	plain := succeed(t, "", "tokenize", "--no-special", "Once upon a time")
	require.Equal(t, "1 "+plain, line)
	require.Equal(t, line, succeed(t, "Once upon a time", "tokenize", "-m", demoModel))
	require.Equal(t, "Once upon a time", succeed(t, "", append([]string{"tokenize", "--decode"}, strings.Fields(plain)...)...))

	require.Equal(t, "1 1\n", succeed(t, "", "tokenize", "<s>"))
	require.NotContains(t, strings.Fields(succeed(t, "", "tokenize", "--no-special", "<s>")), "1")

	var got struct{ IDs []int32 }
	decodeJSON(t, succeed(t, "", "tokenize", "--json", "Once upon a time"), &got)
	ids, err := parseIDs(line)
	require.NoError(t, err)
	require.Equal(t, ids, got.IDs)
	require.Equal(t, "{\"ids\":[]}\n", succeed(t, "", "tokenize", "--json", "--no-special", ""))
	require.Equal(t, "\n", succeed(t, "", "tokenize", "--no-special", ""))
}

func TestTokenizeRoundTrip(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"a story":        "Once upon a time there was a child.\n\n\"Hello,\" said Tom.\r\n",
		"spaces":         "  two  and\tmore \n ",
		"other scripts":  "héllo 🙂 日本語",
		"special tokens": "<s> and </s> and <unk>",
		"any bytes":      "\x00\x01\xff\xfe\x80é\xc3",
	} {
		ids := succeed(t, text, "tokenize", "--no-special")
		require.Equal(t, text, succeed(t, ids, "tokenize", "--decode"), name)
		require.Equal(t, text, succeed(t, strings.ReplaceAll(ids, " ", ","), "tokenize", "-d"), name)
	}
}
