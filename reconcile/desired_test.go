package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// plain is a kind of things whose observed state is what was done last.
type plain[D any] struct {
	name func(D) string
	done map[string]string
}

type do struct{ To string }

func (do) ActionName() string { return "do" }

func (p plain[D]) Observe(_ context.Context, r reconcile.Resource[D]) (string, error) {
	return p.done[r.Ref.ID], nil
}

func (p plain[D]) Decide(v reconcile.View[D, string]) reconcile.Decision {
	want := p.name(v.Resource.Desired)
	if v.Resource.Delete {
		want = ""
	}
	if v.Observed != want {
		return reconcile.Do(do{want}, reconcile.Because("differs", ""))
	}
	return reconcile.IsConverged(reconcile.Because("as-desired", ""))
}

func (p plain[D]) Act(_ context.Context, r reconcile.Resource[D], a reconcile.Action) error {
	p.done[r.Ref.ID] = a.(do).To
	return nil
}

// The forms of one kind: a field is renamed in the second, and changes its type in the third.
type (
	first  struct{ Host string }
	second struct{ Name string }
	third  struct{ Name []string }
)

type seconds struct{ plain[second] }

func (seconds) Version() int { return 2 }

func (seconds) Upgrade(_ int, raw json.RawMessage) (json.RawMessage, error) {
	var old first
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, err
	}
	return json.Marshal(second{old.Host})
}

type thirds struct{ plain[third] }

func (thirds) Version() int { return 3 }

func (thirds) Upgrade(from int, raw json.RawMessage) (json.RawMessage, error) {
	if from == 1 {
		return seconds{}.Upgrade(1, raw)
	}
	var old second
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, err
	}
	return json.Marshal(third{[]string{old.Name}})
}

func nameOf1(d first) string  { return d.Host }
func nameOf2(d second) string { return d.Name }
func nameOf3(d third) string  { return strings.Join(d.Name, "+") }

var deskRef = reconcile.Ref{Kind: "box", ID: "desk"}

// during runs a controller over a store for an hour, after set.
func during(t *testing.T, store reconcile.Store, kind reconcile.Kind, set ...reconcile.Intent) (row reconcile.Row, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := reconcile.New(store)
	testkit.Must(t, kind(c))
	for _, in := range set {
		if _, failed := c.Apply(ctx, in, reconcile.By("me")); failed != nil {
			err = failed
		}
	}
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	pass(time.Hour)
	stop()
	testkit.Must(t, <-done)
	return testkit.Value(store.Get(t.Context(), deskRef))(t), err
}

func box(m reconcile.Reconciler[second, string]) reconcile.Kind {
	return reconcile.Of("box", m, reconcile.Policy{})
}

// TestDesiredStateEvolves: rows of every version are read by the program of the third.
func TestDesiredStateEvolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := map[string]string{}
		store := memory.New()
		v1 := reconcile.Of("box", plain[first]{nameOf1, done}, reconcile.Policy{})
		v2 := box(seconds{plain[second]{nameOf2, done}})
		v3 := reconcile.Of("box", thirds{plain[third]{nameOf3, done}}, reconcile.Policy{})
		check := func(kind reconcile.Kind, version int, want string, set ...reconcile.Intent) {
			t.Helper()
			row, err := during(t, store, kind, set...)
			if err != nil || row.Phase != reconcile.Converged || done["desk"] != want || row.DesiredVersion() != version {
				t.Fatalf("%v; it is %s (%s), done %q in version %d, want %q in %d", err, row.Phase, row.Reason, done["desk"], row.DesiredVersion(), want, version)
			}
		}
		check(v1, 1, "a", reconcile.Upsert(deskRef, first{"a"}))
		check(v2, 1, "a")
		check(v3, 1, "a")
		check(v2, 2, "b", reconcile.Upsert(deskRef, second{"b"}))
		check(v3, 2, "b")
		check(v3, 3, "c+d", reconcile.Upsert(deskRef, third{[]string{"c", "d"}}))
		// The older program does not read it, says so, and leaves it as it is until the newer one comes back.
		if row, _ := during(t, store, v2); row.Phase != reconcile.Failed || row.Reason.Code != "bad-desired" ||
			!strings.Contains(row.Reason.Message, "version 3, and this program reads up to 2") || done["desk"] != "c+d" {
			t.Fatalf("the older program has it %s (%s)", row.Phase, row.Reason)
		}
		check(v3, 3, "c+d")
	})
}

// TestAFieldThatWasRenamedIsNotZero: without Upgrade the resource fails and says what is unknown; nothing is
// done. Its deletion is left to a person with that reason, and a program that reads it takes it up again.
func TestAFieldThatWasRenamedIsNotZero(t *testing.T) {
	for name, newer := range map[string]func(map[string]string) reconcile.Kind{
		"renamed": func(done map[string]string) reconcile.Kind { return box(plain[second]{nameOf2, done}) },
		"another type": func(done map[string]string) reconcile.Kind {
			return reconcile.Of("box", plain[struct{ Host int }]{func(struct{ Host int }) string { return "" }, done}, reconcile.Policy{})
		},
		"not an object": func(done map[string]string) reconcile.Kind {
			return reconcile.Of("box", plain[[]string]{func([]string) string { return "" }, done}, reconcile.Policy{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := map[string]string{}
				store := memory.New()
				v1 := reconcile.Of("box", plain[first]{nameOf1, done}, reconcile.Policy{})
				testkit.Value(during(t, store, v1, reconcile.Upsert(deskRef, first{"a"})))(t)
				row := testkit.Value(during(t, store, newer(done)))(t)
				if row.Phase != reconcile.Failed || row.Reason.Code != "bad-desired" || !strings.Contains(row.Reason.Message, "Host") && name != "not an object" || done["desk"] != "a" {
					t.Errorf("it is %s (%s), and was made %q", row.Phase, row.Reason, done["desk"])
				}
				if row, err := during(t, store, v1); err != nil || row.Phase != reconcile.Converged {
					t.Errorf("the program that reads it has it %s (%s), %v", row.Phase, row.Reason, err)
				}
				row = testkit.Value(during(t, store, newer(done), reconcile.Delete(deskRef)))(t)
				if row.Phase != reconcile.Orphaned || !strings.Contains(row.Reason.Message, "cannot be read") || done["desk"] != "a" {
					t.Errorf("deleted it is %s (%s), and was made %q", row.Phase, row.Reason, done["desk"])
				}
			})
		})
	}
}

// TestUnknownFieldsMayBePassedOver where a controller asks for it.
func TestUnknownFieldsMayBePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c := reconcile.New(memory.New(), reconcile.WithUnknownFields())
		testkit.Must(t, reconcile.Register(c, "box", plain[first]{nameOf1, map[string]string{}}, reconcile.Policy{}))
		testkit.Value(c.Apply(ctx, reconcile.Upsert(deskRef, map[string]any{"Host": "a", "New": 1}), reconcile.By("me")))(t)
	})
}

// TestWhatCannotBeIsNotWritten: Apply and Plan fail at once.
func TestWhatCannotBeIsNotWritten(t *testing.T) {
	ctx := t.Context()
	store := memory.New()
	c := reconcile.New(store)
	testkit.Must(t, reconcile.Register(c, "box", plain[first]{nameOf1, map[string]string{}}, reconcile.Policy{}))
	for name, x := range map[string]struct {
		in   reconcile.Intent
		want string
	}{
		"a number":         {reconcile.Upsert(deskRef, 5), "cannot unmarshal number"},
		"another type":     {reconcile.Upsert(deskRef, second{"a"}), `unknown field "Name"`},
		"null":             {reconcile.Upsert(deskRef, nil), "null is not"},
		"a list":           {reconcile.Upsert(deskRef, []first{{"a"}}), "cannot unmarshal array"},
		"an unknown kind":  {reconcile.Upsert(reconcile.Ref{Kind: "bx", ID: "desk"}, first{"a"}), `no reconciler is registered for kind "bx"`},
		"no id":            {reconcile.Upsert(reconcile.Ref{Kind: "box"}, first{"a"}), "needs a kind and an id"},
		"no kind":          {reconcile.Delete(reconcile.Ref{ID: "desk"}), "needs a kind and an id"},
		"not to be stored": {reconcile.Upsert(deskRef, make(chan int)), "encode"},
	} {
		_, err := c.Apply(ctx, x.in, reconcile.By("me"))
		_, planned := c.Plan(ctx, x.in)
		for _, err := range []error{err, planned} {
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, want %q", name, err, x.want)
			}
		}
	}
	if rows := testkit.Value(store.List(ctx, reconcile.Filter{}))(t); len(rows) != 0 {
		t.Errorf("%d rows were written", len(rows))
	}
	const boxes reconcile.KindOf[first] = "box"
	testkit.Value(c.Apply(ctx, boxes.Upsert("desk", first{"a"}), reconcile.By("me")))(t)
	if row := testkit.Value(c.Get(ctx, boxes.Ref("desk")))(t); string(row.Desired) != `{"Host":"a"}` {
		t.Errorf("it is to be %s", row.Desired)
	}
}

// parentOf is a parent of one child, as it is given.
type parentOf struct{ child reconcile.Intent }

func (parentOf) Observe(context.Context, reconcile.Resource[int]) (int, error) { return 0, nil }
func (p parentOf) Decide(reconcile.View[int, int]) reconcile.Decision {
	return reconcile.IsConverged(reconcile.Because("ok", "")).With(p.child)
}
func (parentOf) Act(context.Context, reconcile.Resource[int], reconcile.Action) error {
	return errors.New("a parent never acts")
}

// TestAChildThatCannotBeFailsItsParent, at once and with the reason; one that can has the version of its kind.
func TestAChildThatCannotBeFailsItsParent(t *testing.T) {
	for name, x := range map[string]struct {
		child   reconcile.Intent
		want    string
		version int
	}{
		"another type":    {child: reconcile.Upsert(deskRef, first{"a"}), want: `unknown field "Host"`},
		"an unknown kind": {child: reconcile.Upsert(reconcile.Ref{Kind: "bx", ID: "desk"}, 1), want: `no reconciler is registered for kind "bx"`},
		"its type":        {child: reconcile.Upsert(deskRef, second{"a"}), version: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				c := reconcile.New(memory.New())
				testkit.Must(t, box(seconds{plain[second]{nameOf2, map[string]string{}}})(c))
				testkit.Must(t, reconcile.Register(c, "parent", parentOf{x.child}, reconcile.Policy{}))
				ref := reconcile.Ref{Kind: "parent", ID: "p"}
				testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, 1), reconcile.By("me")))(t)
				go func() { _ = c.Run(ctx) }()
				err := c.WaitConverged(ctx, ref)
				child, _ := c.Get(ctx, x.child.Ref) // none where it is refused
				switch {
				case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) || child.Created != 0):
					t.Errorf("%v, want %q and no child", err, x.want)
				case x.want == "" && (err != nil || child.DesiredVersion() != x.version):
					t.Errorf("%v, version %d", err, child.DesiredVersion())
				}
			})
		})
	}
}
