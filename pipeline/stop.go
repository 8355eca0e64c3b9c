package pipeline

import (
	"errors"
	"strings"
)

// A stopper finds the first stop string in a text that comes in pieces, and
// holds back what may become one.
type stopper struct {
	stops []string
	held  string // the beginning of a stop string, or nothing
}

func newStopper(stops []string) (*stopper, error) {
	for _, s := range stops {
		if s == "" {
			return nil, errors.New("stop string: empty")
		}
	}
	return &stopper{stops: stops}, nil
}

// next returns what of the text up to the end of piece can be shown, and
// whether a stop string begins behind it. Then it holds nothing any more.
func (s *stopper) next(piece string) (show string, stopped bool) {
	text := s.held + piece
	s.held = ""
	first := len(text)
	for _, stop := range s.stops {
		if i := strings.Index(text, stop); i >= 0 && i <= first {
			first, stopped = i, true
		}
	}
	if stopped {
		return text[:first], true
	}
	for _, stop := range s.stops {
		for i := max(0, len(text)-len(stop)+1); i < first; i++ {
			if strings.HasPrefix(stop, text[i:]) {
				first = i
			}
		}
	}
	s.held = text[first:]
	return text[:first], false
}

// flush returns what is held back: the text has ended, it becomes nothing else.
func (s *stopper) flush() string {
	held := s.held
	s.held = ""
	return held
}
