package system_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// A kind of resource that no other package knows: one row, one type, one reconciler.

func init() {
	spec.Register(spec.Kind{
		Name: "bell", List: "bells", Most: 3, Progress: clock.Hour, Verbs: []spec.Verb{{Name: spec.VerbRetry}},
		State: func(s spec.Stage) spec.State {
			if s.Phase == engine.Converged {
				return "Ringing"
			}
			return spec.Waiting
		},
		Storage: spec.InOthers[bell](),
	})
}

type bell struct {
	Name  string `json:"name"`
	Tone  int    `json:"tone,omitempty"` // Hz; 0: 440
	Image string `json:"image,omitempty"`
}

func (b *bell) Named() *string { return &b.Name }
func (b *bell) Normalize() {
	if b.Tone == 440 {
		b.Tone = 0
	}
}
func (b *bell) Needs() (out []spec.Need) {
	if b.Image != "" {
		out = append(out, spec.Need{ID: spec.ID{Kind: spec.KindImage, Name: b.Image}, Required: true})
	}
	return out
}
func (b *bell) Blobs() []spec.Blob { return nil }
func (b *bell) Unique() string     { return "" }
func (b *bell) Claims(spec.NameMapper) []spec.Claim {
	return []spec.Claim{{What: fmt.Sprintf("tone %d", b.Tone)}}
}
func (b *bell) Confine(*spec.Bounds) {}
func (b *bell) CheckBounds(x *spec.Bounds, c spec.Checker) {
	if b.Tone > 1000 && !x.Privileged {
		c.In("tone").Addf("a tone of %d Hz is not allowed here: expected at most 1000", b.Tone)
	}
}
func (b *bell) Check(c spec.Checker) {
	if b.Tone < 0 {
		c.In("tone").Addf("a tone of %d Hz: expected 1 or more, or none for 440", b.Tone)
	}
}

type tune struct{ Tone int }

func (tune) ActionName() string { return "tune" }

// tower is where bells ring.
type tower struct {
	mu    sync.Mutex
	tones map[string]int
}

func (w *tower) Observe(_ context.Context, r engine.Resource[spec.Desired[bell]]) (diff.Form, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if tone, rings := w.tones[r.Ref.ID]; rings {
		return diff.Form{"tone": fmt.Sprint(tone)}, nil
	}
	return nil, nil
}

func (w *tower) Decide(v engine.View[spec.Desired[bell], diff.Form]) engine.Decision {
	var want diff.Form
	if !v.Resource.Delete {
		want = diff.Form{"tone": fmt.Sprint(v.Resource.Desired.Spec.Tone)}
	}
	ds := diff.Compare(want, v.Observed, nil, everyField{})
	if len(ds) == 0 {
		return engine.IsConverged(engine.Reason{})
	}
	return engine.Do(tune{v.Resource.Desired.Spec.Tone}, engine.NewReason("out_of_tune", ds[0].Show()))
}

func (w *tower) Act(_ context.Context, r engine.Resource[spec.Desired[bell]], a engine.Action) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tones[r.Ref.ID] = a.(tune).Tone; r.Delete {
		delete(w.tones, r.Ref.ID)
	}
	return nil
}

func (w *tower) rings(name string) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tone, ok := w.tones[name]
	return tone, ok
}

type everyField struct{}

func (everyField) Class(string, string, string) (diff.Class, string) { return diff.InPlace, "" }
func (everyField) OwnsExtra(string) bool                             { return true }
func (everyField) Default(string) string                             { return "" }

// End of the kind. What follows takes it through all that there is for kinds.

// declareBells reads documents of bells as people write them.
func declareBells(t *testing.T, text string) *spec.Set {
	t.Helper()
	list, problems := apply.Read(spec.Known, "bells.yaml", []byte(text), "h")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set := &spec.Set{}
	for _, r := range list {
		one, _, err := spec.Known.Read(r.Kind, r.Name, r.Spec)
		testkit.Must(t, err)
		set.Add(one)
	}
	set.Normalize()
	return set
}

const twoBells = "kind: Bell\nname: noon\nspec: {tone: 440}\n---\nkind: Bell\nname: evening\nspec: {tone: 880}\n"

func TestKindFromOutsideIsDeclaredAndChecked(t *testing.T) {
	if _, problems := apply.Read(spec.Known, "b.yaml", []byte("kind: Bell\nname: noon\nspec: {tone: -1}\n"), "h"); len(problems) != 1 ||
		!strings.Contains(problems[0].String(), "b.yaml:3") || !strings.Contains(problems[0].String(), "expected 1 or more") {
		t.Errorf("a wrong tone: %v", problems)
	}
	if _, problems := apply.Read(spec.Known, "b.yaml", []byte("kind: Gong\nname: noon\n"), "h"); len(problems) == 0 {
		t.Error("a kind that nobody registered is known")
	}
	set := declareBells(t, twoBells)
	if got := fmt.Sprint(set.IDs()); got != "[bell/evening bell/noon]" {
		t.Error(got)
	}
	set.Others["bell"] = append(set.Others["bell"], json.RawMessage(`{"name":"x","volume":11}`))
	if got := fmt.Sprint(set.Check()); !strings.Contains(got, "not known") {
		t.Errorf("a field that nobody knows: %s", got)
	}
	lacking := declareBells(t, "kind: Bell\nname: noon\nspec: {image: bronze}\n")
	if got := fmt.Sprint(lacking.Check()); !strings.Contains(got, `bells.noon: bell "noon" names image "bronze", which is not declared`) {
		t.Error(got)
	}
}

func bundleOf(t *testing.T, set *spec.Set) (fleet.Bundle, []byte) {
	b := fleet.Bundle{Type: fleet.TypeBundle, Name: "tower", Files: []fleet.File{}, Exec: []fleet.Exec{}, Containers: set, Critical: []string{fleet.CriticalContainers}}
	raw := testkit.Value(json.Marshal(b))(t)
	return b, raw
}

func TestKindFromOutsideTravelsInABundle(t *testing.T) {
	set := declareBells(t, twoBells)
	_, raw := bundleOf(t, set)
	read, err := trust.ReadBundle(raw)
	testkit.Must(t, err)
	if got := fmt.Sprint(read.Containers.IDs()); got != fmt.Sprint(set.IDs()) {
		t.Error(got)
	}
	if _, err := trust.ReadBundle(bytes.ReplaceAll(raw, []byte(`"bell"`), []byte(`"gong"`))); err == nil || !strings.Contains(err.Error(), `unknown kind "gong"`) {
		t.Errorf("who does not know the kind takes the bundle: %v", err)
	}
	if got := health.Within("bell/noon"); got != clock.Hour {
		t.Errorf("a bell on its way is degraded after %s", got)
	}
}

func TestKindFromOutsideIsPlanned(t *testing.T) {
	set := declareBells(t, "kind: Bell\nname: noon\nspec: {image: bronze}\n")
	set.Images = []spec.Image{{Name: "bronze", Ref: "bronze:1", Pull: &spec.Pull{}}}
	p := deploy.Next(deploy.Want{Set: set, Title: func(s string) string { return s }}, nil)
	if len(p.Intents) != 1 || p.Intents[0].Ref.Kind != spec.KindImage || len(p.Waiting) != 1 || p.Waiting[0].ID.Kind != "bell" {
		t.Errorf("a bell does not wait for its image: %+v", p)
	}
}

func TestKindFromOutsideIsHeldToTheBounds(t *testing.T) {
	in := hosting.AdmitInput{Delegation: &fleet.Delegation{Kinds: []string{"bell"}}}
	for name, tone := range map[string]int{"low": 100, "loud": 2000, "taken": 440} {
		in.Doc.Entries = append(in.Doc.Entries, wire.ManagedEntry{Kind: "bell", Name: name, Spec: json.RawMessage(fmt.Sprintf(`{"tone":%d}`, tone))})
	}
	in.Bundles = []*spec.Set{declareBells(t, twoBells)}
	got := hosting.Admit(in)
	if ids := fmt.Sprint(got.Layer.Set.IDs()); ids != "[bell/low]" || len(got.Refused) != 2 {
		t.Errorf("admitted %s, refused %+v", ids, got.Refused)
	}
	target := &managed.Target{Host: "h", Declared: true, Delegation: in.Delegation}
	_, err := managed.Check(target, managed.Input{Kind: "bell", Name: "loud", Spec: json.RawMessage(`{"tone":2000}`)}, spec.Operators)
	if err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("the server takes what the host refuses: %v", err)
	}
	if _, err := managed.RequestVerb(managed.New(), target, "bell", "low", spec.VerbRestart, "n", managed.Change{}); err == nil || !strings.Contains(err.Error(), "restart is not for resources of kind bell") {
		t.Errorf("a verb of others: %v", err)
	}
}

// bundles is the content of one bundle after the other.
type bundles struct {
	system.Content
	of map[digest.Digest]*fleet.Bundle
}

func (b *bundles) Bundle(_ context.Context, d digest.Digest) (*fleet.Bundle, error) {
	return b.of[d], nil
}

// openRows is an empty store of rows that lasts as long as the test.
func openRows(t *testing.T) *sqlite.Store {
	t.Helper()
	db := testkit.Value(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	rows := sqlite.New(db)
	tx := testkit.Value(db.BeginTx(t.Context(), nil))(t)
	testkit.Must(t, rows.Migrate(t.Context(), tx))
	testkit.Must(t, tx.Commit())
	return rows
}

func TestKindFromOutsideConverges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := &bundles{of: map[digest.Digest]*fleet.Bundle{}}, &tower{tones: map[string]int{}}
		host := system.Host{Root: t.TempDir(), Name: "h", Content: b, Title: func(s string) string { return s },
			Log: slog.New(slog.DiscardHandler), Resync: clock.Second}
		var states []string
		l := reconcile.New(openRows(t), reconcile.WithAfterCommit(func(ts []engine.Transition) {
			for _, x := range ts {
				states = append(states, fmt.Sprint(x.Ref, " ", spec.Known.StateOf(spec.Stage{Kind: x.Ref.Kind, Phase: x.To, Code: x.Reason.Code, Action: x.Action})))
			}
		}))
		testkit.Must(t, system.Register(l, host))
		testkit.Must(t, system.RegisterLayer(l, host.Title))
		testkit.Must(t, reconcile.Register(l, "bell", w, engine.Policy{OnDrift: engine.Enforce, Resync: time.Minute}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		run := func(name, text string) {
			t.Helper()
			bundle, raw := bundleOf(t, declareBells(t, text))
			b.of[digest.Of(raw)] = &bundle
			testkit.Value(l.Apply(ctx, engine.Upsert(engine.Ref{Kind: system.KindGeneration, ID: "current"}, system.Generation{Bundle: digest.Of(raw), Run: name}), engine.Cause{}))(t)
			synctest.Wait()
		}
		run("one", twoBells)
		if tone, _ := w.rings("evening"); tone != 880 {
			t.Errorf("evening rings at %d", tone)
		}
		run("two", "kind: Bell\nname: noon\nspec: {tone: 220}\n")
		if tone, _ := w.rings("noon"); tone != 220 {
			t.Errorf("noon rings at %d", tone)
		}
		if _, rings := w.rings("evening"); rings {
			t.Error("what is no longer declared still rings")
		}
		set := declareBells(t, "kind: Bell\nname: late\nspec: {tone: 300}\n")
		testkit.Value(l.Apply(ctx, engine.Upsert(deploy.ManagedLayer, deploy.Layer{Set: *set}), engine.Cause{}))(t)
		synctest.Wait()
		if tone, _ := w.rings("late"); tone != 300 {
			t.Errorf("the bell of the managed layer rings at %d", tone)
		}
		if got := strings.Join(states, ", "); !strings.Contains(got, "bell/noon Ringing") || !strings.Contains(got, "bell/evening Removed") {
			t.Errorf("what people are told: %s", got)
		}
		stop()
		<-done
	})
}
