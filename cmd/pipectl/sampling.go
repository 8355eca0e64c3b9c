package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

// generateFlags say how text is generated.
type generateFlags struct {
	predict int
	sample.Config
	stop []string
}

// newGenerateFlags returns the defaults, those of llama.cpp.
func newGenerateFlags(predict int) generateFlags {
	return generateFlags{predict: predict, Config: sample.Config{
		Temperature: 0.8, TopK: 40, Typical: 1, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1, RepeatWindow: 64, MirostatRate: 0.1,
	}}
}

func (g *generateFlags) addPredict(cmd *cobra.Command, def string) {
	addParsed(cmd.Flags(), &g.predict, "predict", "n", "at most `N` tokens; 0 or -1 for all until the text or the context ends (default "+def+")", atLeast(-1))
}

func (g *generateFlags) addSampling(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float32Var(&g.Temperature, "temp", g.Temperature, "temperature `T`: how freely tokens are chosen; 0 for always the likeliest")
	addParsed(flags, &g.Bias, "logit-bias", "", "add to the logit of a token: `ID=BIAS`, -inf to forbid it; may be repeated", g.parseBias)
	flags.IntVar(&g.RepeatWindow, "repeat-window", g.RepeatWindow, "`N` recent tokens that penalties are for")
	flags.Float32Var(&g.RepeatPenalty, "repeat-penalty", g.RepeatPenalty, "divide the logits of recent tokens by `X`; 1 for no penalty")
	flags.Float32Var(&g.FrequencyPenalty, "frequency-penalty", g.FrequencyPenalty, "subtract `X` from the logit of a recent token for each time that it occurs; 0 for no penalty")
	flags.Float32Var(&g.PresencePenalty, "presence-penalty", g.PresencePenalty, "subtract `X` from the logits of recent tokens; 0 for no penalty")
	flags.IntVar(&g.TopK, "top-k", g.TopK, "choose among the `K` likeliest tokens; 0 for all")
	flags.Float32Var(&g.Typical, "typical", g.Typical, "choose among the most typical tokens that together have probability `P`; 1 for all")
	flags.Float32Var(&g.TopP, "top-p", g.TopP, "choose among the likeliest tokens that together have probability `P`; 1 for all")
	flags.Float32Var(&g.MinP, "min-p", g.MinP, "choose among tokens at least `P` times as likely as the likeliest; 0 for all")
	flags.Float32Var(&g.Mirostat, "mirostat", g.Mirostat, "keep the surprise at `BITS` on average, instead of the four filters above; 0 for not")
	flags.Float32Var(&g.MirostatRate, "mirostat-rate", g.MirostatRate, "how quickly --mirostat adapts, `X` from 0 to 1")
	flags.Uint64Var(&g.Seed, "seed", 0, "`SEED` of the choice, for the same text again (default a random one)")
	flags.StringArrayVar(&g.stop, "stop", nil, "end before this `TEXT`; may be repeated")
}

// parseBias adds a bias to those that are there.
func (g *generateFlags) parseBias(s string) (map[int32]float32, error) {
	key, value, ok := strings.Cut(s, "=")
	id, err := strconv.ParseUint(key, 10, 31)
	if !ok || err != nil {
		return nil, errors.New("must be a token's number, =, and a number")
	}
	bias, err := strconv.ParseFloat(value, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", value)
	}
	all := maps.Clone(g.Bias)
	if all == nil {
		all = map[int32]float32{}
	}
	all[int32(id)] = float32(bias)
	return all, nil
}

// check refuses values that make no sense, and draws a seed if none was given.
func (g *generateFlags) check(cmd *cobra.Command) error {
	if err := g.Validate(); err != nil {
		return usageError{err}
	}
	for _, s := range g.stop {
		if s == "" {
			return usagef("--stop: no text")
		}
	}
	if !cmd.Flags().Changed("seed") {
		g.Seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	return nil
}

// seed is what the choice depends on; nil if there is none.
func (g *generateFlags) seed() *uint64 {
	if g.Temperature == 0 {
		return nil
	}
	return &g.Seed
}

// config is what to generate with; the prompt is missing.
func (g *generateFlags) config() pipeline.GenConfig {
	return pipeline.GenConfig{MaxTokens: max(g.predict, 0), Stop: g.stop, Sampling: g.Config}
}
