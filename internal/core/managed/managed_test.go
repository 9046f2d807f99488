package managed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// ledger folds what is decided and keeps it, as the log would.
type ledger struct {
	t   testing.TB
	s   *managed.State
	log []event.Entry
	now clock.Instant
}

func newLedger(t testing.TB) *ledger { return &ledger{t: t, s: managed.New(), now: 1_000_000} }

func (l *ledger) fold(host string, events ...event.Event) {
	l.t.Helper()
	for _, ev := range events {
		e := testkit.Value(event.NewEntry(l.now, event.HostSubject(host), ev))(l.t)
		testkit.Must(l.t, l.s.Apply(e))
		l.log = append(l.log, e)
	}
}

func (l *ledger) change() managed.Change {
	return managed.Change{Actor: "ann", Reason: "because", Now: l.now}
}

func (l *ledger) take(host string, events []event.Event, err error) error {
	l.t.Helper()
	if err == nil {
		l.fold(host, events...)
	} else if len(events) > 0 {
		l.t.Fatalf("a refusal decided %d events", len(events))
	}
	return err
}

func (l *ledger) set(t *managed.Target, kind, name, value string) error {
	l.t.Helper()
	events, err := managed.Set(l.s, t, managed.Input{Kind: kind, Name: name, Spec: json.RawMessage(value)}, l.change())
	return l.take(t.Host, events, err)
}

func target(kinds ...string) *managed.Target {
	return &managed.Target{Host: "gpu-1", Declared: true, Delegation: &fleet.Delegation{Kinds: kinds, Allow: []string{}}}
}

func code(err error) managed.Code {
	var r *managed.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

const volume = `{"labels":{"a":"b"}}`

func TestSetIsRefusedWithTheLineToAdd(t *testing.T) {
	l := newLedger(t)
	declared := target("image", "volume")
	declared.Bundle = &spec.Set{Volumes: []spec.Volume{{Name: "data"}}}
	for _, c := range []struct {
		what              string
		t                 *managed.Target
		kind, name, value string
		code              managed.Code
		words             string
	}{
		{"a host nobody declared", &managed.Target{Host: "who"}, "volume", "v", volume, managed.UnknownHost, "host who is not declared"},
		{"a host that delegates nothing", &managed.Target{Host: "web-1", Declared: true}, "volume", "v", volume, managed.NotDelegated, `hosts.web-1 in fleet.yaml "managed: [volume]"`},
		{"a kind it does not delegate", declared, "network", "n", `{}`, managed.NotDelegated, `"managed: [image, network, volume]"`},
		{"an unknown kind", declared, "pod", "p", `{}`, managed.Invalid, "expected one of"},
		{"a bad name", declared, "volume", "../x", volume, managed.Invalid, "not a name"},
		{"a field that is not known", declared, "volume", "v", `{"labelz":{}}`, managed.Invalid, "labelz"},
		{"two values", declared, "volume", "v", `{} {}`, managed.Invalid, "goes on"},
		{"no JSON", declared, "volume", "v", `{`, managed.Invalid, "cannot be read"},
		{"another's name", declared, "volume", "v", `{"name":"w"}`, managed.Invalid, `is of "w"`},
		{"a spec that is wrong", declared, "volume", "v", `{"labels":{"io.steady.host":"x"}}`, managed.Invalid, "io.steady"},
		{"a long spec", declared, "volume", "v", `{"driver":"` + strings.Repeat("x", spec.MaxSpec) + `"}`, managed.Invalid, "bytes"},
		{"what the bundle declares", declared, "volume", "data", volume, managed.Clash, "bundle"},
	} {
		err := l.set(c.t, c.kind, c.name, c.value)
		if code(err) != c.code || err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %q %v, expected %q with %q", c.what, code(err), err, c.code, c.words)
		}
	}
	if len(l.log) != 0 {
		t.Errorf("%d events of refusals", len(l.log))
	}
}

func TestSetTwiceIsNoNews(t *testing.T) {
	l, v := newLedger(t), target("volume")
	for range 2 {
		testkit.Must(t, l.set(v, "volume", "v", volume))
	}
	if h := l.s.Hosts["gpu-1"]; len(l.log) != 1 || h.Version != 1 || h.News() != 1 {
		t.Fatalf("%d events, version %d", len(l.log), h.Version)
	}
	if err := l.set(v, "volume", "v", `{"labels":{"a":"c"}}`); err != nil || l.s.Hosts["gpu-1"].Version != 2 {
		t.Fatal(err)
	}
	if items := l.s.Hosts["gpu-1"].Items(); len(items) != 1 || !strings.Contains(string(items[0].Spec), `"name":"v"`) {
		t.Errorf("items %+v", items)
	}
}

func TestNotAfterMustLieAhead(t *testing.T) {
	l := newLedger(t)
	in := managed.Input{Kind: "volume", Name: "v", Spec: json.RawMessage(volume), NotAfter: l.now}
	if _, err := managed.Set(l.s, target("volume"), in, l.change()); code(err) != managed.Invalid {
		t.Errorf("an end that is over: %v", err)
	}
	in.NotAfter++
	if _, err := managed.Set(l.s, target("volume"), in, l.change()); err != nil {
		t.Error(err)
	}
}

func TestLayerIsBounded(t *testing.T) {
	l, v := newLedger(t), target("volume")
	for i := range managed.MaxEntries {
		testkit.Must(t, l.set(v, "volume", fmt.Sprint("v", i), volume))
	}
	if err := l.set(v, "volume", "more", volume); code(err) != managed.Full {
		t.Errorf("one more than %d: %v", managed.MaxEntries, err)
	}
	if err := l.set(v, "volume", "v1", `{}`); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
	l = newLedger(t)
	big := `{"labels":{"a":"` + strings.Repeat("x", 60<<10) + `"}}`
	n := 0
	for ; n < 100; n++ {
		if err := l.set(v, "volume", fmt.Sprint("v", n), big); code(err) == managed.Full {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 30 || n > 36 {
		t.Errorf("%d specs of 60 KiB fit in %d bytes", n, managed.MaxLayer)
	}
}

// Many at once need consent; one by one over time does not.
func TestMassRemovalNeedsConsent(t *testing.T) {
	l, v := newLedger(t), target("volume")
	for i := range 10 {
		testkit.Must(t, l.set(v, "volume", fmt.Sprint("v", i), volume))
	}
	remove := func(i int, allow bool) error {
		events, err := managed.Remove(l.s, v, "volume", fmt.Sprint("v", i), allow, l.change())
		return l.take("gpu-1", events, err)
	}
	for i := range 2 {
		testkit.Must(t, remove(i, false))
	}
	if err := remove(2, false); code(err) != managed.MassRemoval || !strings.Contains(err.Error(), "3 of 10") {
		t.Errorf("a third of ten: %v", err)
	}
	if err := remove(2, true); err != nil {
		t.Errorf("with consent: %v", err)
	}
	l.now = l.now.Add(managed.AtOnce)
	if err := remove(3, false); err != nil {
		t.Errorf("later: %v", err)
	}
	if err := remove(4, false); code(err) != managed.MassRemoval {
		t.Errorf("two of seven: %v", err)
	}
	if err := remove(3, false); code(err) != managed.Missing {
		t.Errorf("again: %v", err)
	}
	v.Bundle = &spec.Set{Volumes: []spec.Volume{{Name: "v3"}}}
	if err := remove(3, false); code(err) != managed.Clash {
		t.Errorf("of the bundle: %v", err)
	}
	v.Delegation = nil
	l.now = l.now.Add(managed.AtOnce)
	if err := remove(4, false); err != nil {
		t.Errorf("what is not delegated any more may go: %v", err)
	}
}

const web = `{"image":"app"}`

func TestVerbs(t *testing.T) {
	l, v := newLedger(t), target("image", "workspace")
	v.Bundle = &spec.Set{Workspaces: []spec.Workspace{{Name: "db"}}}
	testkit.Must(t, l.set(v, "workspace", "web", web))
	nonce := 0
	ask := func(kind, name, verb string) error {
		nonce++
		events, err := managed.RequestVerb(l.s, v, kind, name, verb, fmt.Sprint("n", nonce), l.change())
		return l.take("gpu-1", events, err)
	}
	state := func() string {
		var w spec.Workspace
		for _, i := range l.s.Hosts["gpu-1"].Items() {
			if i.Name == "web" {
				testkit.Must(t, json.Unmarshal(i.Spec, &w))
				return string(w.State) + " " + i.Verb
			}
		}
		return "none"
	}
	for _, c := range []struct {
		kind, name, verb string
		code             managed.Code
		state            string
	}{
		{"workspace", "web", "redeploy", "", " redeploy"},
		{"workspace", "web", "stop", "", "stopped stop"},
		{"workspace", "web", "stop", "", "stopped stop"},
		{"workspace", "web", "retry", "", "stopped retry"},
		{"workspace", "web", "start", "", " start"},
		{"workspace", "web", "build", managed.Invalid, " start"},
		{"workspace", "web", "explode", managed.Invalid, " start"},
		{"workspace", "none", "retry", managed.Missing, " start"},
		{"workspace", "db", "stop", managed.Clash, " start"},
		{"workspace", "db", "redeploy", "", " start"},
		{"snapshot", "s", "retry", managed.NotDelegated, " start"},
	} {
		if err := ask(c.kind, c.name, c.verb); code(err) != c.code {
			t.Errorf("%s of %s/%s: %v, expected %q", c.verb, c.kind, c.name, err, c.code)
		}
		if got := state(); strings.Replace(got, "running", "", 1) != c.state {
			t.Errorf("after %s of %s the state is %q, expected %q", c.verb, c.name, got, c.state)
		}
	}
	items := l.s.Hosts["gpu-1"].Items()
	if len(items) != 2 || items[0].Name != "db" || len(items[0].Spec) != 0 || items[0].Verb != "redeploy" || items[0].Nonce == "" {
		t.Errorf("items %+v", items)
	}
	if err := l.set(v, "workspace", "web", `{"image":"app","tty":true}`); err != nil || strings.Contains(state(), "start") {
		t.Errorf("a new spec leaves the verb: %q, %v", state(), err)
	}
}

func TestSettingsNeedTheirAllowance(t *testing.T) {
	no, yes := false, true
	fast := fleet.Settings{HeartbeatInterval: 10 * clock.Second}
	off := fleet.Settings{Enabled: &no}
	for _, c := range []struct {
		what  string
		allow []string
		to    fleet.Settings
		code  managed.Code
	}{
		{"nothing allowed", nil, fast, managed.NotDelegated},
		{"nothing asked for", nil, fleet.Settings{}, ""},
		{"enabled is the default", nil, fleet.Settings{Enabled: &yes}, ""},
		{"disable is not settings", []string{fleet.AllowDisable}, fast, managed.NotDelegated},
		{"settings are not disable", []string{fleet.AllowSettings}, off, managed.NotDelegated},
		{"settings", []string{fleet.AllowSettings}, fast, ""},
		{"disable", []string{fleet.AllowDisable}, off, ""},
		{"both", []string{fleet.AllowDisable, fleet.AllowSettings}, fleet.Settings{Enabled: &no, Pools: fleet.Pools{Pulls: 3}}, ""},
		{"too fast", []string{fleet.AllowSettings}, fleet.Settings{HeartbeatInterval: 4 * clock.Second}, managed.Invalid},
		{"too many", []string{fleet.AllowSettings}, fleet.Settings{Pools: fleet.Pools{Builds: 65}}, managed.Invalid},
		{"fewer than none", []string{fleet.AllowSettings}, fleet.Settings{Pools: fleet.Pools{Starts: -1}}, managed.Invalid},
	} {
		l := newLedger(t)
		v := &managed.Target{Host: "h", Declared: true, Delegation: &fleet.Delegation{Allow: c.allow}}
		events, err := managed.Tune(l.s, v, c.to, l.change())
		if err := l.take("h", events, err); code(err) != c.code {
			t.Errorf("%s: %v, expected %q", c.what, err, c.code)
		}
		if c.code != "" {
			continue
		}
		if diff := cmp.Diff(l.s.SettingsOf("h"), c.to); diff != "" && len(l.log) > 0 {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	if _, err := managed.Tune(managed.New(), &managed.Target{Host: "h"}, fast, managed.Change{}); code(err) != managed.UnknownHost {
		t.Errorf("an unknown host: %v", err)
	}
}

func TestBoundsOfTheDeclarationHold(t *testing.T) {
	b := spec.Bounds{Images: []string{"ghcr.io/acme"}, Ports: &spec.PortRange{From: 8000, To: 8099}, MaxWorkspaces: 2}
	signed := b
	signed.RequireSigned = true
	for _, c := range []struct {
		what        string
		b           spec.Bounds
		kind, value string
		words       string // "" is taken
	}{
		{"plain", b, "workspace", web, ""},
		{"privileged", b, "workspace", `{"image":"app","security":{"privileged":true}}`, "privileged"},
		{"the host's network", b, "workspace", `{"image":"app","networkMode":"host"}`, "host"},
		{"a folder of the host", b, "workspace", `{"image":"app","mounts":[{"type":"bind","source":"/etc","target":"/x"}]}`, "/etc"},
		{"a device", b, "workspace", `{"image":"app","devices":[{"host":"/dev/kvm","container":"/dev/kvm","permissions":"rw"}]}`, "kvm"},
		{"a port", b, "workspace", `{"image":"app","ports":[{"hostPort":8001,"port":80,"protocol":"tcp"}]}`, ""},
		{"a port outside", b, "workspace", `{"image":"app","ports":[{"hostPort":22,"port":22,"protocol":"tcp"}]}`, "22"},
		{"an image", b, "image", `{"ref":"ghcr.io/acme/app:1","pull":{}}`, ""},
		{"an image of others", b, "image", `{"ref":"ghcr.io/evil/app:1","pull":{}}`, "ghcr.io/evil"},
		{"no signature", signed, "workspace", web, "requireSigned"},
	} {
		l, v := newLedger(t), target("image", "workspace")
		v.Delegation.Bounds = c.b
		err := l.set(v, c.kind, "x", c.value)
		if c.words == "" && err != nil || c.words != "" && (code(err) != managed.OutOfBounds || !strings.Contains(err.Error(), c.words) || c.b.RequireSigned == strings.Contains(err.Error(), "hosts.gpu-1.bounds")) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	l, v := newLedger(t), target("workspace")
	v.Delegation.Bounds = b
	for i := range 3 {
		if err := l.set(v, "workspace", fmt.Sprint("w", i), web); (i == 2) != (code(err) == managed.OutOfBounds) {
			t.Errorf("workspace %d of 2: %v", i+1, err)
		}
	}
	if err := l.set(v, "workspace", "w1", `{"image":"app","tty":true}`); err != nil {
		t.Errorf("one in place of itself: %v", err)
	}
}

// drawSpec is a spec that reads, of any kind.
func drawSpec(t *rapid.T) (kind, value string) {
	kind = rapid.SampledFrom(spec.Kinds).Draw(t, "kind")
	label := rapid.StringMatching("[a-z]{1,3}").Draw(t, "label")
	switch kind {
	case spec.KindImage:
		value = `{"pull":{},"ref":"docker.io/` + label + `/app:1"}`
	case spec.KindWorkspace:
		value = rapid.SampledFrom([]string{web, `{"image":"app","security":{"privileged":true}}`, `{"image":"app","networkMode":"host"}`,
			`{"image":"app","ports":[{"hostPort":81,"port":80,"protocol":"tcp"}]}`, `{"image":"app","mounts":[{"type":"bind","source":"/srv/` + label + `","target":"/x"}]}`}).Draw(t, "workspace")
	case spec.KindSnapshot:
		value = `{"workspace":"` + label + `"}`
	case spec.KindRoute:
		value = `{"host":"` + label + `.example","workspace":"web","port":80}`
	default:
		value = `{"labels":{"l":"` + label + `"}}`
	}
	return kind, value
}

// However it came about, folding the log again, from its start or from any
// snapshot, gives the same state.
func TestSnapshotAndLogGiveTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger(t)
		v := target(spec.Kinds...)
		v.Delegation.Bounds.Images = []string{"*"}
		v.Delegation.Allow = fleet.Allowances
		cutAt := rapid.IntRange(0, 20).Draw(rt, "snapshot")
		var snapshot []byte
		at := 0
		for i := range 20 {
			if i == cutAt {
				snapshot, _ = json.Marshal(l.s)
				at = len(l.log)
			}
			l.now = l.now.Add(clock.Duration(rapid.IntRange(0, 40_000).Draw(rt, "pause")))
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
			kind, value := drawSpec(rt)
			var events []event.Event
			var err error
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				events, err = managed.Set(l.s, v, managed.Input{Kind: kind, Name: name, Spec: json.RawMessage(value)}, l.change())
			case 2:
				events, err = managed.Remove(l.s, v, kind, name, rapid.Bool().Draw(rt, "allow"), l.change())
			case 3:
				events, err = managed.RequestVerb(l.s, v, kind, name, rapid.SampledFrom(managed.Verbs()).Draw(rt, "verb"), fmt.Sprint(i), l.change())
			}
			if err != nil && code(err) == "" {
				rt.Fatal(err)
			}
			before, _ := json.Marshal(l.s)
			if err != nil {
				if len(events) > 0 {
					rt.Fatal("a refusal with events")
				}
				continue
			}
			if len(events) == 0 {
				if after, _ := json.Marshal(l.s); string(after) != string(before) {
					rt.Fatal("deciding changed the state")
				}
			}
			l.fold(v.Host, events...)
		}
		whole := managed.New()
		for _, e := range l.log {
			testkit.Must(rt, whole.Apply(e))
		}
		if diff := cmp.Diff(whole.Hosts, l.s.Hosts); diff != "" {
			rt.Fatal(diff)
		}
		if snapshot == nil {
			return
		}
		part := new(managed.State)
		testkit.Must(rt, json.Unmarshal(snapshot, part))
		part = managed.Restore(part)
		for _, e := range l.log[at:] {
			testkit.Must(rt, part.Apply(e))
		}
		if diff := cmp.Diff(whole.Hosts, part.Hosts); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestP1NothingOutOfBoundsIsSet checks that whatever gets into the layer was, when
// it was set, of a kind that the host's declaration left to the server, and inside
// of its bounds, read again from the log alone.
func TestP1NothingOutOfBoundsIsSet(t *testing.T) {
	taken, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger(t)
		for range rapid.IntRange(1, 10).Draw(rt, "tries") {
			kind, value := drawSpec(rt)
			v := target(rapid.SliceOfDistinct(rapid.SampledFrom(spec.Kinds), rapid.ID).Draw(rt, "delegated")...)
			v.Delegation.Bounds = spec.Bounds{
				Privileged: rapid.Bool().Draw(rt, "privileged"), HostNamespaces: rapid.Bool().Draw(rt, "namespaces"),
				Images:        rapid.SliceOfN(rapid.StringMatching(`docker\.io/[a-z]`), 0, 3).Draw(rt, "images"),
				HostMounts:    rapid.SliceOfN(rapid.StringMatching(`/srv/[a-z]`), 0, 3).Draw(rt, "mounts"),
				MaxWorkspaces: rapid.IntRange(0, 2).Draw(rt, "workspaces"), RequireSigned: rapid.Bool().Draw(rt, "signed"),
			}
			if rapid.Bool().Draw(rt, "ports") {
				v.Delegation.Bounds.Ports = &spec.PortRange{From: 80, To: 90}
			}
			if rapid.IntRange(0, 3).Draw(rt, "nothing") == 0 {
				v.Delegation = nil
			}
			before := len(l.log)
			err := l.set(v, kind, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"), value)
			if _, asked := managed.RequestVerb(l.s, v, kind, "a", "retry", "n", l.change()); !v.Delegation.Manages(kind) && (code(err) != managed.NotDelegated || code(asked) != managed.NotDelegated) {
				rt.Fatalf("%s on a host that delegates %v: %v, %v", kind, v.Delegation, err, asked)
			}
			if err != nil {
				refused++
			}
			for _, e := range l.log[before:] {
				taken++
				inside(rt, v.Delegation, e)
			}
			workspaces := 0
			for _, i := range l.s.Hosts["gpu-1"].Items() {
				if i.Kind == spec.KindWorkspace {
					workspaces++
				}
			}
			if err == nil && len(l.log) > before && kind == spec.KindWorkspace && v.Delegation.Bounds.MaxWorkspaces > 0 && workspaces > v.Delegation.Bounds.MaxWorkspaces {
				rt.Fatalf("%d workspaces where %d are allowed", workspaces, v.Delegation.Bounds.MaxWorkspaces)
			}
		}
	})
	if taken == 0 || refused == 0 {
		t.Fatalf("%d taken, %d refused: the draws show nothing", taken, refused)
	}
}

// inside checks an entry of the log against a delegation, without the code that
// decided it.
func inside(t *rapid.T, d *fleet.Delegation, e event.Entry) {
	var set event.ManagedSet
	testkit.Must(t, json.Unmarshal(e.Body, &set))
	if !d.Manages(set.Kind) || d.Bounds.RequireSigned && len(set.Envelope) == 0 {
		t.Fatalf("%s was taken on %+v", e.Body, d)
	}
	if set.Kind != spec.KindWorkspace && set.Kind != spec.KindImage {
		return
	}
	var w spec.Workspace
	var i spec.Image
	if err := json.Unmarshal(set.Spec, &w); set.Kind == spec.KindWorkspace && err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(set.Spec, &i); set.Kind == spec.KindImage && err != nil {
		t.Fatal(err)
	}
	b := d.Bounds
	bad := w.Security.Privileged && !b.Privileged || w.NetworkMode == "host" && !b.HostNamespaces
	for _, m := range w.Mounts {
		bad = bad || m.Type == spec.MountBind && !slices.ContainsFunc(b.HostMounts, func(p string) bool { return m.Source == p || strings.HasPrefix(m.Source, p+"/") })
	}
	bad = bad || len(w.Ports) > 0 && b.Ports == nil
	if set.Kind == spec.KindImage {
		bad = bad || !slices.ContainsFunc(b.Images, func(p string) bool { return strings.HasPrefix(i.Ref, p+"/") })
	}
	if bad {
		t.Fatalf("%s was taken within %+v", set.Spec, b)
	}
}

// TestRetriesAreBoundedAndNews: each retry has its host fetch, and the newest are kept.
func TestRetriesAreBoundedAndNews(t *testing.T) {
	l := newLedger(t)
	reported := &health.Host{Resources: map[string]health.Resource{"workspace/web": {}}}
	for i := range managed.MaxRetries + 3 {
		events, err := managed.RetryHost("h", "workspace/web", fmt.Sprint(i), reported, l.change())
		testkit.Must(t, l.take("h", events, err))
	}
	h := l.s.Hosts["h"]
	if len(h.Retries) != managed.MaxRetries || h.Retries[0].Nonce != "3" || h.News() != managed.MaxRetries+3 {
		t.Errorf("%d retries are kept, the first %+v, news %d", len(h.Retries), h.Retries[0], h.News())
	}
	for resource, want := range map[string]managed.Code{"": "", "workspace/web": "", "workspace/wbe": managed.Missing} {
		if _, err := managed.RetryHost("h", resource, "n", reported, l.change()); code(err) != want {
			t.Errorf("%q: %v", resource, err)
		}
	}
	if _, err := managed.RetryHost("h", "workspace/web", "n", nil, l.change()); code(err) != managed.Missing {
		t.Errorf("of a host that reported nothing: %v", err)
	}
}
