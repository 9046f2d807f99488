package reconciletest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
)

// shelf is a world of books. A clumsy one has Act forget that it may be called again.
type shelf struct {
	mu     sync.Mutex
	books  []string
	clumsy bool
	point  func(string) error // inside of an act
}

type order struct{ Title string }

type put struct{ Title string }

func (put) ActionName() string { return "put" }

func (s *shelf) Observe(_ context.Context, r reconcile.Resource[order]) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.books {
		if b == r.Desired.Title {
			n++
		}
	}
	return n, nil
}

func (s *shelf) Decide(v reconcile.View[order, int]) reconcile.Decision {
	switch {
	case v.Resource.Delete:
		return reconcile.IsConverged(reconcile.Because("lent", ""))
	case len(v.Events) == 0:
		return reconcile.Wait(reconcile.Because("not-delivered", ""))
	case v.Observed == 0:
		return reconcile.Do(put{v.Resource.Desired.Title}, reconcile.Because("absent", ""))
	}
	return reconcile.IsConverged(reconcile.Because("there", ""))
}

func (s *shelf) Act(_ context.Context, r reconcile.Resource[order], a reconcile.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clumsy {
		// Half of the act is not seen by Observe.
		s.books = append(s.books, "the paper of "+r.Ref.ID)
		if err := s.point("unpacked"); err != nil {
			return err
		}
	}
	s.books = append(s.books, a.(put).Title)
	return nil
}

var emma = reconcile.Ref{Kind: "book", ID: "emma"}

func (s *shelf) kind() reconcile.Kind { return reconcile.Of("book", s, reconcile.Policy{}) }

func delivered() reconcile.Event { return reconcile.Event{Source: "/shop", ID: "1", Type: "delivered"} }

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		l := NewLoop(t, s.kind())
		start := time.Now()
		l.Apply(reconcile.Upsert(emma, order{"Emma"}))
		l.WantPhase(emma, reconcile.Waiting)
		l.Advance(90 * 24 * time.Hour)
		l.Restart()
		l.Crash()
		l.WantPhase(emma, reconcile.Waiting)
		l.Deliver(emma, delivered())
		l.Deliver(emma, delivered())
		l.WantPhase(emma, reconcile.Converged)
		if took := time.Since(start); took != 90*24*time.Hour || len(s.books) != 1 {
			t.Errorf("%s went by, the shelf has %v", took, s.books)
		}
		if h := l.History(emma); len(h) != 5 || l.State() != "book/emma converged {\"Title\":\"Emma\"}\n" {
			t.Errorf("%s, history %v", l.State(), h)
		}
		if p := l.Phase(reconcile.Ref{Kind: "book", ID: "none"}); p != "" {
			t.Errorf("what there is not is %s", p)
		}
		if failed := fails(func(t T) { l.t = t; l.WantPhase(emma, reconcile.Failed) }); !strings.Contains(failed, "want phase failed; book/emma is converged: there") {
			t.Errorf("a wrong phase: %q", failed)
		}
		if failed := fails(func(t T) { l.t = t; l.Apply(reconcile.Retry(reconcile.Ref{Kind: "book", ID: "none"})) }); !strings.Contains(failed, "no such resource") {
			t.Errorf("a refused intent: %q", failed)
		}
		if failed := fails(func(t T) { NewLoop(t, s.kind(), s.kind()) }); !strings.Contains(failed, "registered already") {
			t.Errorf("a kind twice: %q", failed)
		}
		l.t = t
	})
}

// fake is a test that fails.
type fake struct{ text string }

func (*fake) Helper()        {}
func (*fake) Cleanup(func()) {}
func (f *fake) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails runs f in a test that may fail, and says why it did.
func fails(f func(T)) string {
	t := &fake{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(t)
	}()
	<-done
	return t.text
}

func lendOne(l *Loop, s *shelf) {
	s.point = l.Point
	l.Start(s.kind())
	l.Apply(reconcile.Upsert(emma, order{"Emma"}))
	l.Deliver(emma, delivered())
	l.Advance(10 * time.Minute)
}

func TestCrashEverywhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		clumsy bool
		want   string
	}{
		{"an act that may be repeated", false, ""},
		{"an act of two steps", true, "a crash unpacked, point "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s *shelf
			points, err := crashes(t, func(l *Loop) {
				s = &shelf{clumsy: c.clumsy}
				lendOne(l, s)
			}, func(l *Loop) string { return l.State() + fmt.Sprint(s.books) })
			if points < 12 || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d points, %v; want %q", points, err, c.want)
			}
		})
	}
	// A reconciler that keeps to itself what it has done loses it with its process.
	_, err := crashes(t, func(l *Loop) {
		l.Start(func(c *reconcile.Controller) error { return new(forgetful).register(c) })
		l.Apply(reconcile.Upsert(emma, order{"Emma"}))
		l.Advance(time.Minute)
	}, (*Loop).State)
	if err == nil || !strings.Contains(err.Error(), "changes the end") {
		t.Errorf("a reconciler with a memory: %v", err)
	}
	if _, err := crashes(t, func(l *Loop) { l.Start() }, (*Loop).State); err == nil {
		t.Error("accepted a scenario in which nothing happens")
	}
	CrashEverywhere(t, func(l *Loop) { lendOne(l, &shelf{}) }, (*Loop).State)
}

// forgetful believes that the first time it is asked is the first time of all.
type forgetful struct {
	shelf
	asked bool
}

func (f *forgetful) register(c *reconcile.Controller) error {
	return reconcile.Register(c, "book", f, reconcile.Policy{})
}

func (f *forgetful) Observe(context.Context, reconcile.Resource[order]) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.asked = true }()
	if f.asked {
		return 1, nil
	}
	return 0, nil
}

func (f *forgetful) Decide(v reconcile.View[order, int]) reconcile.Decision {
	if v.Observed == 1 || v.Resource.Status.Phase == reconcile.Waiting {
		return reconcile.IsConverged(reconcile.Because("there", ""))
	}
	if v.Resource.Status.Phase == reconcile.Retrying {
		return reconcile.Fail(reconcile.Because("lost", ""))
	}
	return reconcile.Do(put{"x"}, reconcile.Because("absent", ""))
}

func cases() Table[order, int] {
	v := func(seen int, es ...reconcile.Event) reconcile.View[order, int] {
		return reconcile.View[order, int]{Resource: reconcile.Resource[order]{Ref: emma, Desired: order{"Emma"}}, Observed: seen, Events: es}
	}
	return Table[order, int]{
		{Name: "waits", View: v(0), Decision: "wait", Code: "not-delivered"},
		{Name: "puts", View: v(0, delivered()), Decision: "do", Action: put{"Emma"}, Code: "absent", Children: []reconcile.Intent{}},
		{Name: "is there", View: v(1, delivered()), Decision: "converged", Code: "there"},
	}
}

func TestTable(t *testing.T) {
	cases()[:1].Run(t, &shelf{})
	all := cases()
	wrong := func(change func(*Case[order, int])) error {
		c := all[1]
		change(&c)
		return c.check(&shelf{})
	}
	for name, err := range map[string]error{
		"decided do (absent), want wait (absent)": wrong(func(c *Case[order, int]) { c.Decision = "wait" }),
		"want do (lost)": wrong(func(c *Case[order, int]) { c.Code = "lost" }),
		"action [\"put\",{\"Title\":\"Emma\"}], want null": wrong(func(c *Case[order, int]) { c.Action = nil }),
		"{\"Title\":\"Persuasion\"}":                       wrong(func(c *Case[order, int]) { c.Action = put{"Persuasion"} }),
		"children [], want [{":                             wrong(func(c *Case[order, int]) { c.Children = []reconcile.Intent{reconcile.Delete(emma)} }),
		"not a function":                                   all[0].check(&moody{}),
		"changed its view":                                 all[1].check(&vandal{}),
		"panic in Decide":                                  all[0].check((*moody)(nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
	all.Run(t, &shelf{})
}

// moody decides by what it decided before.
type moody struct {
	shelf
	n int
}

func (m *moody) Decide(reconcile.View[order, int]) reconcile.Decision {
	m.n++
	return reconcile.Wait(reconcile.Because("not-delivered", fmt.Sprint(m.n)))
}

// vandal writes into its view.
type vandal struct{ shelf }

func (m *vandal) Decide(v reconcile.View[order, int]) reconcile.Decision {
	v.Events[0].ID += "!"
	return reconcile.Wait(reconcile.Because("not-delivered", ""))
}

func TestReplay(t *testing.T) {
	var recorded []reconcile.Recorded
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{t: t, crasher: NewCrasher(-1)}
		l.Options = []reconcile.Option{reconcile.WithRecorder(func(r reconcile.Recorded) { recorded = append(recorded, r) })}
		lendOne(l, &shelf{})
	})
	if len(recorded) != 3 {
		t.Fatalf("recorded %d decisions: to wait, to put and that it is there", len(recorded))
	}
	Replay(t, &shelf{}, recorded...)
	if err := replayed(&vandal{}, recorded[1]); err == nil || !strings.Contains(err.Error(), `decided
{"decision":"wait"`) || !strings.Contains(err.Error(), `"action":"put"`) {
		t.Errorf("another decision: %v", err)
	}
	recorded[0].View = json.RawMessage("[]")
	if err := replayed(&shelf{}, recorded[0]); err == nil {
		t.Error("replayed what is no view")
	}
}
