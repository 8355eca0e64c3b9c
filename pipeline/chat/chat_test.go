package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline/chat"
)

var hello = []chat.Message{{Role: "user", Content: "Hello"}}

func render(t *testing.T, source string, messages []chat.Message, o chat.Options) (string, error) {
	t.Helper()
	template, err := chat.New(source, chat.Tokens{BOS: "<s>", EOS: "</s>"})
	if err != nil {
		return "", err
	}
	return template.Render(messages, o)
}

// The wanted texts are those of Jinja2 3.1 with trim_blocks and lstrip_blocks.
func TestRender(t *testing.T) {
	for _, tc := range []struct{ name, source, want string }{
		{"text", "a\nb", "a\nb"},
		{"a newline at the end is dropped", "a\n\n", "a\n"},
		{"other newlines", "a\r\nb\rc", "a\nb\nc"},
		{"a block takes its newline", "a\n{% if true %}\nb\n{% endif %}\nc", "a\nb\nc"},
		{"a block takes its indentation", "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
		{"a block within a line takes nothing", "a  {% if true %}b {% endif %} c", "a  b  c"},
		{"a block at the very start", "  {% if true %}a{% endif %}", "a"},
		{"a block behind a block on its line", "{% if true %} {% if true %}a{% endif %}{% endif %}", " a"},
		{"an expression keeps its surroundings", "a\n  {{ 1 }}\nb", "a\n  1\nb"},
		{"an expression before a block", "  {{ 1 }}{% if true %}x{% endif %}", "  1x"},
		{"minus takes all space", "a \n\n {{- 1 -}} \n\n b", "a1b"},
		{"minus at blocks", "a \n {%- if true -%} \n b \n {%- endif -%} \n c", "abc"},
		{"minus stops at a tag", "a {{ 1 }}{{- 2 }}", "a 12"},
		{"plus keeps", "a\n  {%+ if true +%}\nb{% endif %}", "a\n  \nb"},
		{"comments", "a\n  {# x\ny #}\nb{#- c -#} d", "a\nbd"},
		{"raw", "{% raw %}{{ a }}{% if %}{% endraw %}\nb", "{{ a }}{% if %}b"},
		{"braces in an expression", "{{ {'a': {'b': 1}}.a.b }}", "1"},
		{"a closer in a string", "{{ '}}' }}{% if '%}' %}x{% endif %}", "}}x"},
		{"a newline in a string", "{{ 'a\nb' }}", "a\nb"},
		{"no braces of ours", "{ {a} %} }}", "{ {a} %} }}"},
		{"values as Python writes them", "{{ none }} {{ true }} {{ 1.0 }} {{ 'x' }} {{ ['x', 1, none, \"it's\"] }} {{ {'a': 0.5} }}", `None True 1.0 x ['x', 1, None, "it's"] {'a': 0.5}`},
		{"an undefined name", "[{{ nobody }}]", "[]"},
		{"tokens", "{{ bos_token }}{{ eos_token }}", "<s></s>"},
		{"precedence", "{{ 1 + 2 * 3 }} {{ -2 * 3 }} {{ 2 * 3 * 4 }} {{ 2 * (1 + 2) }} {{ not 1 == 2 }}", "7 -6 24 6 True"},
		{"repetition", "{{ '-' * 3 + '>' }}{{ 'ab'|upper * 2 }}{{ 2 * 'x'|upper }}", "--->ABABXX"},
		{"filters", "{{ ['b', 'a']|sort|join('+')|upper }} {{ 'x,y'.replace(',', ';') }} {{ '-'.join(['a', 'b']) }}", "A+B x;y a-b"},
		{"tests", "{{ 1 is defined }} {{ x is not defined }} {{ 'a' is in(['a']) }} {{ none is none }}", "True True True True"},
		{"loop", "{% for a in [1, 2, 3] if a != 2 %}{{ loop.index }}:{{ a }}{{ ', ' if not loop.last }}{% else %}none{% endfor %}", "1:1, 2:3"},
		{"loop over pairs", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "a1b2"},
		{"break and continue", "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "02"},
		{"namespace", "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6"},
		{"set block", "{% set x %}\na{{ 1 }}\n{% endset %}\n[{{ x }}]", "[a1\n]"},
		{"macro", "{% macro m(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}{{ m('y', b='?') }}", "x!y?"},
		{"macro of itself", "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(3) }}", "3210"},
		{"append", "{% set l = [] %}{% set _ = l.append('a') %}{{ l.append('b') or '' }}{{ l|join }}", "ab"},
		{"slices", "{{ 'abc'[1:] }}{{ [1, 2, 3][:-1] }}{{ 'abc'[::-1] }}", "bc[1, 2]cba"},
		{"a key called like a method", "{{ {'format': 'date', 'append': {'x': 1}}.format }} {{ {'append': {'x': 1}}.append.x }}", "date 1"},
		{"selected", "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|rejectattr('role')|list|length }}{{ messages|map(attribute='content')|join }}", "10Hello"},
		{"tojson", `{{ {'b': "<\u00e9'>", 'a': [1, 1.5, none]}|tojson }}`, `{"b": "<\\u00e9'>", "a": [1, 1.5, null]}`},
		{"tojson with indent", "{{ {'b': [1, {}], 'a': []}|tojson(indent=2) }}", "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n}"},
		{"the date", "{{ strftime_now('%d %b %Y, %A, 100%%') }}", "05 Mar 2024, Tuesday, 100%"},
		{"format", "{{ '{} and {1}{}'.format('a', 'b') }}", "a and bb"},
		{"generation blocks", "{% generation %}x{% endgeneration %}", "x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := render(t, tc.source, hello, chat.Options{Now: time.Date(2024, 3, 5, 1, 2, 3, 0, time.UTC)})
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, source, want string }{
		{"no end of a tag", "a\n{{ b", "line 2: a tag without an end"},
		{"no end of a block", "{% if true %}", "unclosed if block"},
		{"no end of a comment", "\n\n{# a", "line 3: a comment without an end"},
		{"no end of a string", "{{ 'a }}", "a string without an end"},
		{"brackets", "\n{{ (1] }}", `line 2: ']' closes nothing`},
		{"an empty tag", "{{ }}", "line 1: an empty tag"},
		{"an unknown statement", "\n{% include 'x' %}", "line 2: {% include %} is not supported"},
		{"a call block", "{% call m() %}{% endcall %}", "{% call %} is not supported"},
		{"syntax in a line behind a long string", "{{ 'a\nb\nc' }}\n{{ 1 + }}", "line 4: "},
		{"an unknown filter", "a\n{% if true %}\n{{ 1|nonsense }}\n{% endif %}", `line 3: unknown filter "nonsense"`},
		{"an unknown test", "\n{{ 1 is nonsense }}", `line 2: unknown test "nonsense"`},
		{"what is no function", "\n{{ bos_token() }}", "line 2: bos_token is not callable"},
		{"a name of ours", "{{ __keep(1) }}", `"__keep" is reserved`},
		{"a slice with a step", "{{ 'a'[0:9999999999:2] }}", "a slice with a step"},
		{"a large file", strings.Repeat(" ", 64<<10+1), "65537 bytes"},
		{"a long tag", "{{ 1" + strings.Repeat("-1", 4096) + " }}", "more than 4096 words"},
		{"deep brackets", "{{ " + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + " }}", "brackets in each other"},
		{"many sums", "{{ 1" + strings.Repeat("+1", 100) + " }}", "more than 64 sums"},
		{"several values", "{{ 1, 2 }}", "several values"},
		{"a word of what is none", "{{ 1 ? 2 }}", `unexpected '?'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := render(t, tc.source, hello, chat.Options{})
			require.ErrorIs(t, err, chat.ErrTemplate)
			require.ErrorContains(t, err, tc.want)
		})
	}

	_, err := render(t, "{% if messages|length < 2 %}\n{{ raise_exception('too ' ~ 'short') }}{% endif %}", hello, chat.Options{})
	var raised *chat.RaisedError
	require.ErrorAs(t, err, &raised)
	require.Equal(t, "too short", raised.Message)
	require.NotErrorIs(t, err, chat.ErrTemplate)
}

// What would take the process down is an error instead. Without the guard, most
// of these end in a stack overflow or exhaust the memory.
func TestHostile(t *testing.T) {
	double := strings.Repeat("{% set s = s ~ s %}", 60)
	for _, tc := range []struct{ name, source string }{
		{"a macro without end", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
		{"two macros without end", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
		{"a macro as a filter", "{% macro m(x) %}{{ x|m }}{% endmacro %}{{ 1|m }}"},
		{"a macro in a namespace", "{% set ns = namespace() %}{% macro m() %}{{ ns.f() }}{% endmacro %}{% set ns.f = m %}{{ m() }}"},
		{"a macro deep in an expression", "{% macro m() %}{{ m()" + strings.Repeat("|trim", 2000) + " }}{% endmacro %}{{ m() }}"},
		{"a macro deep in blocks", "{% macro m() %}" + strings.Repeat("{%if 1%}", 3000) + "{{ m() }}" + strings.Repeat("{%endif%}", 3000) + "{% endmacro %}{{ m() }}"},
		{"a long range", "{% for i in range(2000000000) %}{% endfor %}"},
		{"loops in loops", strings.Repeat("{% for i in range(60000) %}", 5) + strings.Repeat("{% endfor %}", 5)},
		{"a filtered loop in a loop", "{% for i in range(60000) %}{% for j in range(60000) if false %}{% endfor %}{% endfor %}"},
		{"doubling a string", "{% set s = 'aaaaaaaa' %}" + double + "{{ s }}"},
		{"doubling with plus", "{% set s = 'aaaaaaaa' %}" + strings.ReplaceAll(double, "~", "+") + "{{ s }}"},
		{"doubling a list", "{% set s = [1] %}" + strings.ReplaceAll(double, "~", "+") + "{{ s|length }}"},
		{"doubling in blocks", "{% set s = 'aaaaaaaa' %}" + strings.Repeat("{% set s %}{{ s }}{{ s }}{% endset %}", 60)},
		{"doubling through arguments", "{% macro m(s, n) %}{% if n %}{{ m(s ~ s, n - 1) }}{% endif %}{% endmacro %}{{ m('aaaaaaaa', 60) }}"},
		{"doubling through loops", "{% set s = 'aaaaaaaa' %}" + strings.Repeat("{% for s in [s ~ s] %}", 60) + strings.Repeat("{% endfor %}", 60)},
		{"doubling by escaping", "{% set s = '\"\"\"\"' %}{{ s" + strings.Repeat("|tojson", 60) + " }}"},
		{"a wide list of loops", "{% set l = [" + strings.Repeat("'aaaaaaaa',", 2000) + "] %}{% for i in range(60000) %}{% for x in l %}{{ l }}{% endfor %}{% endfor %}"},
		{"repetition", "{{ 'a' * 2000000000 }}"},
		{"repetition of repetition", "{{ 'a' * 1000 * 1000 * 1000 * 1000 }}"},
		{"overflowing repetition", "{{ 'aaaa' * 4611686018427387904 }}"},
		{"indent", "{{ 'a'|indent(2000000000, true) }}"},
		{"tojson indent", "{{ [1]|tojson(indent=2000000000) }}"},
		{"replacing nothing", "{% set s = 'a' * 100000 %}{{ s|replace('', s) }}"},
		{"replacing nothing by method", "{% set s = 'a' * 100000 %}{{ s.replace('', s) }}"},
		{"replacing by a method that got away", "{% set s = 'a' * 100000 %}{% set f = s.replace %}{{ f('', s) }}"},
		{"join", "{% set s = 'a' * 100000 %}{{ range(60000)|join(s) }}"},
		{"format", "{% set s = '{0}' * 20000 %}{{ s.format(s) }}"},
		{"a list in itself", "{% set l = [] %}{{ l.append(l) }}{{ l }}"},
		{"a list in its element", "{% set l = [] %}{% set m = [l] %}{{ l.append(m) }}{{ l }}"},
		{"a list inserted into itself", "{% set l = [] %}{{ l.insert(0, [l]) }}{{ l }}"},
		{"a dict in itself", "{% set d = {} %}{{ d.update({'a': d}) }}{{ d }}"},
		{"a namespace in itself", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}"},
		{"a deep list", "{% set ns = namespace(l=[]) %}{% for i in range(60000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}"},
		{"a list that grows behind its name", "{% set l = [] %}{% set m = [" + strings.Repeat("l,", 1000) + "] %}{{ l.append('a' * 100000) }}{{ m ~ '' }}"},
		{"lists that double from the top", func() string {
			var b strings.Builder
			for i := range 40 {
				b.WriteString("{% set a" + string(rune('a'+i/10)) + string(rune('a'+i%10)) + " = [] %}")
			}
			name := func(i int) string { return "a" + string(rune('a'+i/10)) + string(rune('a'+i%10)) }
			for i := range 39 {
				b.WriteString(strings.Repeat("{{ "+name(i)+".append("+name(i+1)+") }}", 2))
			}
			return b.String() + "{{ aaa == [] }}{{ aaa|unique }}"
		}()},
		{"much text", "{% for i in range(60000) %}" + strings.Repeat("text ", 10000) + "{% endfor %}"},
		{"a step of nothing", "{{ range(1, 5, 0) }}"},
		{"a filter without its arguments", "{{ [1]|select }}{{ 1|replace }}"},
		{"a panic in a filter", "{{ 'a'|indent(-1) }}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := render(t, tc.source, hello, chat.Options{})
			require.ErrorIs(t, err, chat.ErrTemplate)
		})
	}
}

// Long conversations are no attack.
func TestLongConversation(t *testing.T) {
	var messages []chat.Message
	for range 500 {
		messages = append(messages, chat.Message{Role: "user", Content: strings.Repeat("a question ", 500)}, chat.Message{Role: "assistant", Content: "an answer"})
	}
	source, ok := chat.Source("llama3")
	require.True(t, ok)
	got, err := render(t, source, messages, chat.Options{Answer: true})
	require.NoError(t, err)
	require.Greater(t, len(got), 500*500*10)
}

func TestBuiltin(t *testing.T) {
	messages := []chat.Message{{"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello"}, {"user", "Bye"}}
	for name, want := range map[string]string{
		"chatml":  "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
		"llama2":  "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]",
		"llama3":  "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"gemma":   "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
		"phi3":    "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n<|user|>\nBye<|end|>\n<|assistant|>\n",
		"mistral": "<s>[INST] Be brief.\n\nHi [/INST] Hello</s>[INST] Bye [/INST]",
	} {
		source, ok := chat.Source(name)
		require.True(t, ok, name)
		got, err := render(t, source, messages, chat.Options{Answer: true})
		require.NoError(t, err)
		require.Equal(t, want, got, name)
		require.Contains(t, chat.Names(), name)
	}
	require.Len(t, chat.Names(), 6)
	_, ok := chat.Source("none")
	require.False(t, ok)
}

func TestTools(t *testing.T) {
	const source = "{% for t in tools or [] %}{{ t|tojson }}{% for k in t %}{{ k }} {% endfor %}{% endfor %}"
	tools := json.RawMessage(`[{"z": 1, "a": {"y": [true, null, 1.5], "b": "<x>"}}]`)
	got, err := render(t, source, hello, chat.Options{Tools: tools})
	require.NoError(t, err)
	require.Equal(t, `{"z": 1, "a": {"y": [true, null, 1.5], "b": "<x>"}}z a `, got, "keys keep their order")
	for _, bad := range []string{"", "[", `{"a"}`, "[] []", strings.Repeat("[", 10000)} {
		_, err := render(t, source, hello, chat.Options{Tools: json.RawMessage(bad)})
		require.Error(t, err, bad)
	}
}

// Whatever a template is, rendering it ends, with a text or an error.
func FuzzRender(f *testing.F) {
	for _, name := range chat.Names() {
		source, _ := chat.Source(name)
		f.Add(source)
	}
	f.Add("{% macro m(a, b=1) %}{{ a|tojson(indent=1) }}{% endmacro %}{% for k, v in {'a': [1, 2][::-1]}.items() if v %}{{ m(v) * 2 }}{% endfor %}")
	f.Add("{%- set ns = namespace(x=1) -%}{#- c -#}{% raw %}{{{% endraw %}{% set ns.x = ns.x ~ '}}' %}{{ ns.x is not none }}")
	f.Fuzz(func(t *testing.T, source string) {
		template, err := chat.New(source, chat.Tokens{})
		if err != nil {
			require.ErrorIs(t, err, chat.ErrTemplate)
			return
		}
		_, _ = template.Render(hello, chat.Options{Answer: true})
	})
}
