package streams_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// side is one end as its far side holds it: what is put in comes from it, what
// comes out went to it.
type side struct {
	in   chan wire.Frame // closed: the end of what it says
	out  chan wire.Frame // room for none: slow unless somebody takes
	gone chan struct{}
	once sync.Once
}

func newSide() *side {
	return &side{in: make(chan wire.Frame), out: make(chan wire.Frame), gone: make(chan struct{})}
}

func (s *side) end() streams.End {
	return streams.End{
		Read: func() (wire.Frame, error) {
			select {
			case f, ok := <-s.in:
				if !ok {
					return f, io.EOF
				}
				return f, nil
			case <-s.gone:
				return wire.Frame{}, io.ErrClosedPipe
			}
		},
		Write: func(f wire.Frame) error {
			select {
			case s.out <- f:
				return nil
			case <-s.gone:
				return io.ErrClosedPipe
			}
		},
		Close: func() { s.once.Do(func() { close(s.gone) }) },
	}
}

// pair is a stream with both ends under way.
type pair struct {
	b               *streams.Broker
	s               *streams.Stream
	agent, operator *side
	served          chan error // one of each end: agent's, then operator's
	attached        chan error
	hangUp          context.CancelFunc // the operator's request ends
	die             context.CancelFunc // the agent's does
}

func open(t *testing.T, kind wire.StreamKind, l streams.Limits) *pair {
	t.Helper()
	p := &pair{b: streams.New(l), agent: newSide(), operator: newSide(), served: make(chan error, 1), attached: make(chan error, 1)}
	var err error
	if p.s, err = p.b.Open("h", wire.StreamRequest{ID: "1", Kind: kind, Resource: "workspace/web"}); err != nil {
		t.Fatal(err)
	}
	if r, _ := p.b.Hand("h"); len(r) != 1 || r[0].ID != "1" {
		t.Fatalf("handed out %v", r)
	}
	var actx, octx context.Context
	actx, p.die = context.WithCancel(t.Context())
	octx, p.hangUp = context.WithCancel(t.Context())
	go func() { p.attached <- p.b.Attach(actx, "h", "1", p.agent.end(), nil) }()
	testkit.Must(t, p.s.Attached(t.Context()))
	go func() { p.served <- p.s.Serve(octx, p.operator.end()); p.s.Close() }()
	return p
}

// over waits for both ends and checks that nothing is left.
func (p *pair) over(t *testing.T, operator, agent error) {
	t.Helper()
	if err := <-p.served; !errors.Is(err, operator) || (operator == nil) != (err == nil) {
		t.Errorf("the operator's end ended with %v, expected %v", err, operator)
	}
	if err := <-p.attached; !errors.Is(err, agent) || (agent == nil) != (err == nil) {
		t.Errorf("the agent's end ended with %v, expected %v", err, agent)
	}
	synctest.Wait()
	if h, all := p.b.Count("h"); h != 0 || all != 0 {
		t.Errorf("%d and %d streams are left", h, all)
	}
}

func frame(t wire.FrameType, s string) wire.Frame { return wire.Frame{Type: t, Data: []byte(s)} }

func (s *side) takes(t *testing.T, want wire.FrameType, data string) {
	t.Helper()
	select {
	case f := <-s.out:
		if f.Type != want || string(f.Data) != data {
			t.Fatalf("got frame %d %q, expected %d %q", f.Type, f.Data, want, data)
		}
	case <-s.gone:
		t.Fatalf("the end is closed, expected frame %d %q", want, data)
	}
}

func TestFramesGoBothWaysToTheExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, wire.StreamExec, streams.Limits{})
		p.operator.in <- frame(wire.FrameStdin, "ls\n")
		p.agent.takes(t, wire.FrameStdin, "ls\n")
		p.operator.in <- frame(wire.FrameResize, `{"rows":2,"cols":3}`)
		p.agent.takes(t, wire.FrameResize, `{"rows":2,"cols":3}`)
		p.agent.in <- frame(wire.FrameStdout, "a b\n")
		p.operator.takes(t, wire.FrameStdout, "a b\n")
		close(p.operator.in) // it ends its input without saying so
		p.agent.takes(t, wire.FrameClose, "")
		p.agent.in <- frame(wire.FrameStderr, "bye")
		p.operator.takes(t, wire.FrameStderr, "bye")
		p.agent.in <- wire.ExitFrame(wire.Exit{Code: 3})
		close(p.agent.in)
		p.operator.takes(t, wire.FrameExit, `{"code":3}`)
		p.over(t, nil, nil)
	})
}

// A reader that takes nothing holds the writer up, however much that writes, and
// nothing is kept in between; the agent is not held for dead meanwhile.
func TestSlowReaderSlowsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, wire.StreamLogs, streams.Limits{})
		sent := 0
		go func() {
			for range 100 {
				p.agent.in <- frame(wire.FrameStdout, fmt.Sprint(sent))
				sent++
			}
			p.agent.in <- wire.ExitFrame(wire.Exit{})
		}()
		time.Sleep(2 * wire.StreamSilence.Std())
		synctest.Wait()
		if sent > 3 {
			t.Fatalf("%d frames were taken from the agent, none by the operator", sent)
		}
		for i := range 100 {
			p.operator.takes(t, wire.FrameStdout, fmt.Sprint(i))
		}
		p.operator.takes(t, wire.FrameExit, `{"code":0}`)
		p.over(t, nil, nil)
	})
}

func TestAgentGoesAway(t *testing.T) {
	for what, away := range map[string]func(*pair){
		"its request is cut": func(p *pair) { p.die() },
		"no exit":            func(p *pair) { close(p.agent.in) },
		"its body breaks":    func(p *pair) { p.agent.end().Close() },
		"it falls silent":    func(*pair) {}, // time goes on
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, wire.StreamExec, streams.Limits{})
				p.agent.in <- frame(wire.FrameStdout, "begin")
				p.operator.takes(t, wire.FrameStdout, "begin")
				go away(p)
				f := <-p.operator.out
				if exit, err := f.Exit(); err != nil || exit.Code != -1 || !strings.Contains(exit.Error, "agent") {
					t.Errorf("the operator was told %+v, %v", exit, err)
				}
				p.over(t, streams.ErrAgent, streams.ErrAgent)
			})
		})
	}
}

func TestQuietLogsStayOpenWhileTheAgentSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, wire.StreamLogs, streams.Limits{})
		for range 500 {
			time.Sleep(wire.StreamKeepAlive.Std())
			p.agent.in <- frame(wire.FrameStdout, "")
			p.operator.takes(t, wire.FrameStdout, "")
		}
		p.hangUp()
		p.over(t, streams.ErrOperator, streams.ErrOperator)
	})
}

func TestOperatorGoesAway(t *testing.T) {
	for what, away := range map[string]func(*pair){
		"its request is cut": func(p *pair) { p.hangUp() },
		"it can take no more": func(p *pair) {
			p.operator.end().Close()
			select { // whichever of its two ends tells first
			case p.agent.in <- frame(wire.FrameStdout, "x"):
			case <-p.agent.gone:
			}
		},
		"its request is closed": func(p *pair) { p.s.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, wire.StreamExec, streams.Limits{})
				go away(p)
				p.over(t, streams.ErrOperator, streams.ErrOperator)
			})
		})
	}
}

func TestCommandWithoutTrafficEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, wire.StreamExec, streams.Limits{Idle: 10 * time.Minute})
		alive := make(chan struct{})
		go func() {
			defer close(alive)
			for {
				time.Sleep(wire.StreamKeepAlive.Std())
				select {
				case p.agent.in <- frame(wire.FrameStdout, ""):
				case <-p.agent.gone:
					return
				}
			}
		}()
		for f := range p.operator.out {
			if f.Type == wire.FrameExit {
				if exit, _ := f.Exit(); !strings.Contains(exit.Error, "too long") {
					t.Errorf("told %+v", exit)
				}
				break
			}
		}
		p.over(t, streams.ErrIdle, streams.ErrIdle)
		<-alive
	})
}

func TestFramesOfTheWrongEndEndTheStream(t *testing.T) {
	for what, c := range map[string]struct {
		kind wire.FrameType
		from func(*pair) *side
		who  string
	}{
		"input from the agent":     {wire.FrameStdin, func(p *pair) *side { return p.agent }, "agent"},
		"a start from the agent":   {wire.FrameStart, func(p *pair) *side { return p.agent }, "agent"},
		"output from the operator": {wire.FrameStdout, func(p *pair) *side { return p.operator }, "operator"},
		"an exit of the operator":  {wire.FrameExit, func(p *pair) *side { return p.operator }, "operator"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, wire.StreamExec, streams.Limits{})
				c.from(p).in <- frame(c.kind, "{}")
				f := <-p.operator.out
				if exit, err := f.Exit(); err != nil || !strings.Contains(exit.Error, "the "+c.who+" broke") {
					t.Errorf("told %+v, %v", exit, err)
				}
				p.over(t, streams.ErrOrder, streams.ErrOrder)
			})
		})
	}
}

func TestOpeningIsBoundedAndEachStreamIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := streams.New(streams.Limits{PerHost: 2, Total: 3})
		ask := func(host, id string) (*streams.Stream, error) {
			return b.Open(host, wire.StreamRequest{ID: id, Kind: wire.StreamLogs})
		}
		one := testkit.Value(ask("a", "1"))(t)
		two := testkit.Value(ask("a", "2"))(t)
		if _, err := ask("a", "3"); !errors.Is(err, streams.ErrBusy) {
			t.Errorf("a third of host a: %v", err)
		}
		other := testkit.Value(ask("b", "4"))(t)
		if _, err := ask("c", "5"); !errors.Is(err, streams.ErrBusy) {
			t.Errorf("a fourth over all: %v", err)
		}
		if r, again := b.Hand("a"); len(r) != 2 || again != 0 {
			t.Errorf("handed out %v, %s", r, again)
		}
		if r, again := b.Hand("a"); len(r) != 0 || again != 4*time.Second {
			t.Errorf("handed out again %v, %s", r, again)
		}
		time.Sleep(4 * time.Second)
		if r, _ := b.Hand("a"); len(r) != 2 {
			t.Errorf("the answer may have been lost, yet %v was handed out", r)
		}
		for _, id := range []string{"4", "none"} {
			if err := b.Attach(t.Context(), "a", id, streams.End{}, nil); !errors.Is(err, streams.ErrUnknown) {
				t.Errorf("host a opens %s: %v", id, err)
			}
		}
		done := make(chan error, 1)
		agent := newSide()
		go func() { done <- b.Attach(t.Context(), "a", "1", agent.end(), nil) }()
		testkit.Must(t, one.Attached(t.Context()))
		if err := b.Attach(t.Context(), "a", "1", streams.End{}, nil); !errors.Is(err, streams.ErrOpen) {
			t.Errorf("it opens 1 twice: %v", err)
		}
		if r, _ := b.Hand("a"); len(r) != 0 {
			t.Errorf("an open stream is handed out: %v", r)
		}
		if err := two.Attached(t.Context()); !errors.Is(err, streams.ErrNoAnswer) {
			t.Errorf("nobody opens 2: %v", err)
		}
		one.Close()
		one.Close()
		two.Close()
		other.Close()
		if err := <-done; !errors.Is(err, streams.ErrOperator) {
			t.Error(err)
		}
		if h, all := b.Count("a"); h != 0 || all != 0 {
			t.Errorf("%d and %d are left", h, all)
		}
	})
}

func TestCollect(t *testing.T) {
	for what, c := range map[string]struct {
		frames []wire.Frame
		want   string
		err    string
	}{
		"an answer":     {[]wire.Frame{frame(wire.FrameStdout, `{"a":`), frame(wire.FrameStderr, "hm"), frame(wire.FrameStdout, `1}`), wire.ExitFrame(wire.Exit{})}, `{"a":1}`, ""},
		"a refusal":     {[]wire.Frame{wire.ExitFrame(wire.Exit{Code: 1, Error: "no such thing"})}, "", "no such thing"},
		"a code":        {[]wire.Frame{wire.ExitFrame(wire.Exit{Code: 2})}, "", "code 2"},
		"a long answer": {[]wire.Frame{frame(wire.FrameStdout, strings.Repeat("x", 20))}, "", "too long"},
		"half":          {[]wire.Frame{frame(wire.FrameStdout, "{")}, "", "went away"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := streams.New(streams.Limits{})
				s := testkit.Value(b.Open("h", wire.StreamRequest{ID: "1", Kind: wire.StreamPlan}))(t)
				agent := newSide()
				done := make(chan error, 1)
				go func() { done <- b.Attach(t.Context(), "h", "1", agent.end(), nil) }()
				go func() {
					for _, f := range c.frames {
						select {
						case agent.in <- f:
						case <-agent.gone:
							return
						}
					}
					close(agent.in)
				}()
				testkit.Must(t, s.Attached(t.Context()))
				got, err := s.Collect(t.Context(), 16)
				s.Close()
				<-done
				if string(got) != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("collected %q, %v", got, err)
				}
			})
		})
	}
}
