package test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
)

// BenchmarkOverlap tells how well reading hides behind computing, and the other
// way round, with two slots: how long a pass takes, as a share of the longer of
// all its reads and all its arithmetic, when these are within a factor of two of
// each other. A reader that is slowed down to a constant rate makes it so. It
// sleeps for what is left of a block's time and takes no core from compute.
//
// The aim is at most 1.05. The blocks are alike: with two slots a larger one has
// only the block before it to hide behind. A head twice as large as a layer makes
// 1.08 where reading and arithmetic take equally long, and the layers of Q4_K_M,
// of which some are larger than others, 1.07.
func BenchmarkOverlap(b *testing.B) {
	if testing.Short() {
		b.Skip("the model takes 640 MB")
	}
	shape := benchShape
	shape.Vocab = 14000 // so that the head is as large as a layer
	path := benchModel(b, shape, "Q4_0")
	var rate atomic.Int64 // bytes a second; 0 for no limit
	slowed := pipeline.NewBackend("slowed", func(paths []string) (ioactor.Backend, error) {
		p, err := ioactor.OpenPread(paths, ioactor.HintNone)
		if err != nil {
			return nil, err
		}
		return &slowedBackend{Backend: p, rate: &rate}, nil
	})
	for _, ratio := range []float64{0.5, 0.8, 1, 1.25, 2} {
		b.Run(fmt.Sprintf("read=%gxcompute", ratio), func(b *testing.B) {
			rate.Store(0)
			e, err := pipeline.Open(path, pipeline.WithBackend(slowed), pipeline.WithThreads(1), pipeline.WithBuffers(2),
				pipeline.WithContext(512), pipeline.WithoutTokenizer())
			require.NoError(b, err)
			defer func() { require.NoError(b, e.Close()) }()
			s, err := e.NewSession(0)
			require.NoError(b, err)
			defer s.Close()
			// A pass of a few tokens computes for longer than the page cache reads,
			// so that the rest of the time is the limit's.
			pass := func() (took, read, arithmetic time.Duration) {
				s.Truncate(0)
				before, began := e.Stats(), time.Now()
				_, err := s.Feed(b.Context(), benchTokens[:overlapTokens], 1)
				require.NoError(b, err)
				took = time.Since(began)
				after := e.Stats()
				return took, after.Stream.Reader.Working - before.Stream.Reader.Working, after.Compute.Working - before.Compute.Working
			}
			pass()
			var arithmetics []float64
			for range 5 {
				_, _, arithmetic := pass()
				arithmetics = append(arithmetics, arithmetic.Seconds())
			}
			rate.Store(int64(float64(e.Plan().StreamedBytes) / (ratio * middle(arithmetics))))
			pass()
			var shares, ratios []float64
			for b.Loop() {
				took, read, arithmetic := pass()
				shares = append(shares, took.Seconds()/max(read, arithmetic).Seconds())
				ratios = append(ratios, read.Seconds()/arithmetic.Seconds())
			}
			b.ReportMetric(middle(shares), "of-the-longer")
			b.ReportMetric(middle(ratios), "read/compute")
		})
	}
}

const overlapTokens = 16

// A slowedBackend takes as long for a block as its size and the rate say.
type slowedBackend struct {
	ioactor.Backend
	rate *atomic.Int64
}

func (s *slowedBackend) Load(ctx context.Context, b *ioactor.Block, slot *ring.Slot) error {
	began := time.Now()
	if err := s.Backend.Load(ctx, b, slot); err != nil {
		return err
	}
	if rate := s.rate.Load(); rate > 0 {
		left := time.Duration(float64(b.Bytes())/float64(rate)*float64(time.Second)) - time.Since(began)
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
