// Package model knows what is streamed: it takes a parsed GGUF file and gives
// the hyperparameters of its transformer, the role of each tensor, and the
// table of blocks that a pass runs through. It reads no weights.
package model

import "errors"

// ErrUnsupported reports a model that is well formed but cannot be run: its
// architecture, a tensor type, a kind of position embedding.
var ErrUnsupported = errors.New("model: unsupported")

// ErrModel reports a model whose parts do not fit together: a tensor that is
// missing or has the wrong shape, a hyperparameter that makes no sense.
var ErrModel = errors.New("model: inconsistent")
