package stream_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/wire"
)

// pipes is a stream in memory, for virtual time.
type pipes struct {
	down *io.PipeReader
	up   *io.PipeWriter
}

func (p pipes) Stream(context.Context, string) (uplink.Duplex, error) { return p, nil }
func (p pipes) Read(b []byte) (int, error)                            { return p.down.Read(b) }
func (p pipes) Write(b []byte) (int, error)                           { return p.up.Write(b) }
func (p pipes) Accepted() error                                       { return nil }
func (p pipes) CloseWrite() error                                     { return p.up.Close() }
func (p pipes) Close() error {
	_ = p.up.CloseWithError(io.ErrClosedPipe)
	return p.down.CloseWithError(io.ErrClosedPipe)
}

func TestAQuietStreamIsKeptAndAStuckOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, operator := io.Pipe()
		agent, up := io.Pipe()
		done := make(chan error, 1)
		b := backend{logs: func(ctx context.Context, _ string, _ stream.LogsOptions, _, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		go func() { done <- stream.Serve(t.Context(), pipes{down, up}, logs, b, all) }()
		in, last := wire.NewFrameReader(agent), time.Now()
		for range 3 {
			f, err := in.Next()
			if err != nil || f.Type != wire.FrameStdout || len(f.Data) != 0 {
				t.Fatalf("%+v, %v", f, err)
			}
			if d := time.Since(last); d != wire.StreamKeepAlive.Std() {
				t.Errorf("after %s", d)
			}
			last = time.Now()
		}
		// Nobody takes the next one.
		if err := <-done; err != stream.ErrStalled {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(last); d < stream.Stall || d > stream.Stall+2*wire.StreamKeepAlive.Std() {
			t.Errorf("given up after %s", d)
		}
		operator.Close()
	})
}
