package image

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestFamiliar(t *testing.T) {
	for in, want := range map[string]string{"a": "a:latest", "docker.io/library/a": "a:latest", "docker.io/t/a:1": "t/a:1", "h:5000/a": "h:5000/a:latest", "h/a@sha256:x": "h/a@sha256:x"} {
		if got := familiar(in); got != want {
			t.Errorf("%s is %s, expected %s", in, got, want)
		}
	}
}

func TestRepository(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "a:1": "a", "h:5000/a": "h:5000/a", "h:5000/a:1": "h:5000/a", "h:5000/a@sha256:x": "h:5000/a", "docker.io/library/a:1@sha256:x": "a"} {
		if got := repository(in); got != want {
			t.Errorf("%s is of %s, expected %s", in, got, want)
		}
	}
}

func drawImage(t *rapid.T) spec.Image {
	i := spec.Image{Name: "app", Ref: "r.example/app:1"}
	switch rapid.IntRange(0, 2).Draw(t, "source") {
	case 0:
		i.Pull = &spec.Pull{Policy: rapid.SampledFrom([]spec.PullPolicy{"", spec.PullMissing, spec.PullAlways, spec.PullNever}).Draw(t, "policy"),
			Platform: rapid.SampledFrom([]string{"", "linux/amd64", "linux/arm"}).Draw(t, "platform")}
	case 1:
		i.Build = &spec.Build{Inline: rapid.SampledFrom([]string{"FROM a", "FROM b"}).Draw(t, "inline")}
	case 2:
		i.Load = &spec.Load{Archive: spec.Blob{Digest: digest.Of([]byte("a")), Size: 1}}
	}
	return i
}

// world is one engine with at most two images, as Decide's actions change it.
type world struct {
	o    Observed
	made string
}

func (w *world) act(d *Desired, a engine.Action) {
	id := ""
	switch a := a.(type) {
	case Tag:
		w.o.ID, w.o.Missing = a.ID, nil
		return
	case Record:
		id = a.ID
	default:
		id = w.made
		w.o.Owned, w.o.Identity = d.Spec.Build != nil, string(Identity(&d.Spec))
		if d.Spec.Pull != nil && d.Spec.Pull.Platform != "" {
			w.o.Platform = d.Spec.Pull.Platform
		}
	}
	w.o.ID, w.o.MadeThere, w.o.Known, w.o.Missing = id, true, true, nil
	w.o.Made = Image{ID: id, Identity: Identity(&d.Spec), Run: d.Run, Nonce: d.Nonce}
}

// TestS36DecideComesToRest: whatever is there, a few acts lead to rest, and then
// nothing is done any more; what never may be pulled is not.
func TestS36DecideComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Desired{Spec: drawImage(t), Run: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "run"),
			Verb: rapid.SampledFrom([]string{"", VerbCancel, VerbRetry, VerbRebuild}).Draw(t, "verb"), Nonce: "n"}
		w := world{made: "fetched", o: Observed{Ref: "r.example/app:1",
			ID:        rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "id"),
			Owned:     rapid.Bool().Draw(t, "owned"),
			Known:     rapid.Bool().Draw(t, "known"),
			MadeThere: rapid.Bool().Draw(t, "there"),
			Platform:  rapid.SampledFrom([]string{"linux/amd64", "linux/arm/v7"}).Draw(t, "platform"),
			Short:     rapid.SampledFrom([]string{"", "full"}).Draw(t, "short")}}
		if w.o.Known {
			w.o.Made = Image{ID: "x", Run: "r1", Identity: rapid.SampledFrom([]digest.Digest{"", Identity(&d.Spec)}).Draw(t, "made of")}
			w.o.MadeThere = w.o.MadeThere || w.o.ID == "x"
		} else {
			w.o.MadeThere = false
		}
		m := New(Options{})
		for n := 0; ; n++ {
			v := engine.View[Desired, Observed]{Resource: engine.Resource[Desired]{Desired: d}, Observed: w.o}
			a := m.Decide(v).Action()
			if a == nil {
				break
			}
			switch a.(type) {
			case Pull, Build, Load:
				if d.Verb == VerbCancel || w.o.Short != "" || d.Spec.Pull != nil && d.Spec.Pull.Policy == spec.PullNever {
					t.Fatalf("%s, and it may not", a.ActionName())
				}
			}
			if n == 4 {
				t.Fatalf("no rest: %s again with %+v", a.ActionName(), w.o)
			}
			w.act(&d, a)
		}
	})
}

// Whoever leaves a shared piece of work does not end it for the others; the last
// one does.
func TestSharedWorkEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := flights{running: map[string]*flight{}}
		var ended error
		begun := 0
		join := func() (context.CancelCauseFunc, chan error) {
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- s.do(ctx, "k", func(string) {}, func(ctx context.Context, _ func(string)) error {
					begun++
					<-ctx.Done()
					ended = context.Cause(ctx)
					return ended
				})
			}()
			synctest.Wait()
			return cancel, done
		}
		first, second := errors.New("first"), errors.New("second")
		leave1, done1 := join()
		leave2, done2 := join()
		leave1(first)
		if err := <-done1; !errors.Is(err, first) || ended != nil {
			t.Fatalf("%v, the work %v", err, ended)
		}
		leave2(second)
		if err := <-done2; !errors.Is(err, second) || !errors.Is(ended, second) || begun != 1 {
			t.Fatalf("%v, the work %v, begun %d times", err, ended, begun)
		}
	})
}

// All who want one thing at once hear the lines of the one piece of work.
func TestSharedWorkIsHeardByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := flights{running: map[string]*flight{}}
		open, begun := make(chan struct{}), 0
		heard, done := make([]string, 3), make(chan error, 3)
		for n := range heard {
			go func() {
				done <- s.do(t.Context(), "k", func(line string) { heard[n] += line }, func(_ context.Context, say func(string)) error {
					begun++
					<-open
					say("pulled")
					return nil
				})
			}()
		}
		synctest.Wait()
		close(open)
		for range heard {
			testkit.Must(t, <-done)
		}
		if begun != 1 || !slices.Equal(heard, []string{"pulled", "pulled", "pulled"}) || len(s.running) != 0 {
			t.Fatalf("begun %d times, heard %v", begun, heard)
		}
	})
}
