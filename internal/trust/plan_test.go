package trust

import (
	"fmt"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS3SignedOnly: a host gets the plan of the leaf that was signed for it and
// no other, and the bundle that this leaf names and no other.
func TestS3SignedOnly(t *testing.T) {
	k := newKeys(t, "1")
	r, other := newRelease(t, k, 1, 1), newRelease(t, k, 1, 2)
	a := testkit.Value(r.accept(begin(t, k.root(t, 1, 1)), day0))(t)
	for i := range r.leaves {
		for p := range r.proofs {
			for h, host := range testHosts {
				plan, err := a.v.HostPlan(a.manifest, r.leaves[i], r.proofs[p], host)
				if signed := i == p && i == h; (err == nil) != signed {
					t.Errorf("leaf %d with proof %d for %s: %v", i, p, host, err)
				} else if signed && (plan.Value().Host != host || plan.Value().Target != digestOf(r.bundle)) {
					t.Errorf("plan %+v", plan.Value())
				}
			}
		}
	}
	if _, err := a.v.HostPlan(a.manifest, r.leaves[0], r.proofs[0], "web-1"); CodeOf(err) != WrongHost {
		t.Errorf("the leaf of another host: %v", err)
	}
	if _, err := a.v.HostPlan(a.manifest, other.leaves[1], r.proofs[1], "web-1"); CodeOf(err) != ManifestVerifyFailed {
		t.Errorf("the leaf of another release: %v", err)
	}
	if _, err := a.v.HostPlan(a.manifest, nil, r.proofs[1], "web-1"); CodeOf(err) != ManifestMissing {
		t.Errorf("no leaf: %v", err)
	}
	if _, err := a.v.Bundle(a.plan, other.bundle); CodeOf(err) != NotListed {
		t.Errorf("the bundle of another release: %v", err)
	}
}

func TestManifestIsRefused(t *testing.T) {
	k := newKeys(t, "1")
	root := k.root(t, 1, 1)
	for name, c := range map[string]struct {
		change func(m *fleet.Manifest)
		code   Code
	}{
		"other fleet":        {func(m *fleet.Manifest) { m.Fleet = "other" }, WrongFleet},
		"critical unknown":   {func(m *fleet.Manifest) { m.Critical = []string{"approvals"} }, Malformed},
		"version zero":       {func(m *fleet.Manifest) { m.Version = 0 }, Malformed},
		"bad channel":        {func(m *fleet.Manifest) { m.Channel = "../x" }, Malformed},
		"no ref":             {func(m *fleet.Manifest) { m.Ref = "" }, Malformed},
		"unknown policy":     {func(m *fleet.Manifest) { m.Policy.OnHealthFailure = "hope" }, Malformed},
		"negative window":    {func(m *fleet.Manifest) { m.Policy.ConfirmWindow = -1 }, Malformed},
		"negative canaryMax": {func(m *fleet.Manifest) { m.CanaryMax = -1 }, Malformed},
		"canaryMax unnamed":  {func(m *fleet.Manifest) { m.CanaryMax = 2 }, Malformed},
		"first wave too large": {func(m *fleet.Manifest) {
			m.CanaryMax, m.Critical = 1, []string{fleet.CriticalCanary}
			m.Waves[0].Hosts, m.Waves[1].Hosts = 2, 1
		}, Malformed},
		"empty waves count for nothing": {func(m *fleet.Manifest) {
			m.CanaryMax, m.Critical = 1, []string{fleet.CriticalCanary}
			m.Waves[0].Hosts, m.Waves[1].Hosts = 0, 3
		}, Malformed},
		"negative soak":     {func(m *fleet.Manifest) { m.Waves[0].Soak = -1 }, Malformed},
		"leaf count":        {func(m *fleet.Manifest) { m.Waves[1].Hosts = 7 }, Malformed},
		"budget of none":    {func(m *fleet.Manifest) { m.Budgets[0].Max = 0 }, Malformed},
		"probe without how": {func(m *fleet.Manifest) { m.Probes[0].HTTP = nil }, Malformed},
		"probe mode":        {func(m *fleet.Manifest) { m.Probes[0].Mode = "maybe" }, Malformed},
		"probe interval":    {func(m *fleet.Manifest) { m.Probes[0].Interval = 0 }, Malformed},
		"probe command":     {func(m *fleet.Manifest) { m.Probes[0].HTTP, m.Probes[0].Exec = nil, &fleet.ExecProbe{} }, Malformed},
	} {
		r := newRelease(t, k, 1, 1)
		c.change(&r.manifestDoc)
		r = r.relink(t, k)
		if _, err := r.accept(begin(t, root), day0); CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	r := newRelease(t, k, 1, 1)
	r.manifestDoc.Critical = []string{"waves", "policy"}
	if _, err := r.relink(t, k).accept(begin(t, root), day0); err != nil {
		t.Errorf("critical fields that are understood: %v", err)
	}
}

func TestManifestMustBeListedExactly(t *testing.T) {
	k := newKeys(t, "1")
	for name, change := range map[string]func(r *fleet.ManifestRef){
		"digest":  func(r *fleet.ManifestRef) { r.Digest = digestOf(nil) },
		"version": func(r *fleet.ManifestRef) { r.Version++ },
		"name":    func(r *fleet.ManifestRef) { r.Rollout = "stable@other" },
	} {
		r := newRelease(t, k, 1, 1)
		c := r.resolvedDoc.Channels["stable"]
		c.Manifests = slices.Clone(c.Manifests)
		change(&c.Manifests[0])
		r.resolvedDoc.Channels = map[string]fleet.ResolvedChannel{"stable": c}
		if _, err := r.snapshot(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != NotListed {
			t.Errorf("%s: %v", name, err)
		}
		// Listed under another channel it is as good as not listed.
		r = newRelease(t, k, 1, 1)
		r.resolvedDoc.Channels = map[string]fleet.ResolvedChannel{"lab": r.resolvedDoc.Channels["stable"]}
		if _, err := r.snapshot(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != NotListed {
			t.Errorf("other channel: %v", err)
		}
	}
}

func TestLeafIndexesAreInRange(t *testing.T) {
	k := newKeys(t, "1")
	for name, leaf := range map[string]fleet.Leaf{
		"wave too high":   {Host: "web-1", Wave: 2, Target: digestOf(nil)},
		"wave negative":   {Host: "web-1", Wave: -1, Target: digestOf(nil)},
		"probe too high":  {Host: "web-1", Target: digestOf(nil), Probes: []int{1}},
		"probe twice":     {Host: "web-1", Target: digestOf(nil), Probes: []int{0, 0}},
		"budget negative": {Host: "web-1", Target: digestOf(nil), Budgets: []int{-1}},
		"no target":       {Host: "web-1"},
		"bad after":       {Host: "web-1", Target: digestOf(nil), After: []string{"Web 2"}},
	} {
		r := newRelease(t, k, 1, 1)
		r.leaves = slices.Clone(r.leaves)
		r.leaves[1] = canonical(t, leaf)
		if _, err := r.relink(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLeavesAreOnePerHost(t *testing.T) {
	k := newKeys(t, "1")
	accept := func(change func(r *release)) error {
		r := newRelease(t, k, 1, 1)
		r.leaves = slices.Clone(r.leaves)
		change(&r)
		r = r.relink(t, k)
		a := testkit.Value(r.accept(begin(t, k.root(t, 1, 1)), day0))(t)
		leaves, tree, err := a.v.Leaves(a.manifest, r.leaves)
		if err != nil {
			return err
		}
		for i, l := range leaves.Value() {
			p := testkit.Value(tree.InclusionProof(uint64(i)))(t)
			if _, err := a.v.HostPlan(a.manifest, r.leaves[i], p, l.Host); err != nil {
				t.Errorf("leaf %d: %v", i, err)
			}
		}
		return nil
	}
	testkit.Must(t, accept(func(*release) {}))
	if err := accept(func(r *release) { r.leaves[2] = r.leaves[1] }); CodeOf(err) != Malformed {
		t.Errorf("a host twice: %v", err)
	}
	if err := accept(func(r *release) { r.leaves[0], r.leaves[2] = r.leaves[2], r.leaves[0] }); CodeOf(err) != Malformed {
		t.Errorf("not sorted: %v", err)
	}
	if err := accept(func(r *release) {
		r.manifestDoc.Waves = slices.Clone(r.manifestDoc.Waves)
		r.manifestDoc.Waves[0].Hosts, r.manifestDoc.Waves[1].Hosts = 2, 1
	}); CodeOf(err) != Malformed {
		t.Errorf("waves of other sizes: %v", err)
	}
}

// TestRecall: what was accepted can be had again when no snapshot lists it any
// more, and nothing else can.
func TestRecall(t *testing.T) {
	k := newKeys(t, "1")
	r1, r2 := newRelease(t, k, 1, 1), newRelease(t, k, 1, 2)
	a := testkit.Value(r1.accept(begin(t, k.root(t, 1, 1)), day0))(t)
	payload := testkit.Value(Payload(a.manifest, r1.manifest))(t)
	b := testkit.Value(r2.accept(a.v, day0))(t)
	if _, _, err := b.v.Manifest(r1.manifest, b.resolved); CodeOf(err) != NotListed {
		t.Fatalf("release 2 does not list the manifest of 1: %v", err)
	}
	v := testkit.Value(NewVerifier(testFleet, restart(t, b.v.State())))(t)
	m := testkit.Value(v.Recall(payload))(t)
	plan := testkit.Value(v.HostPlan(m, r1.leaves[1], r1.proofs[1], "web-1"))(t)
	testkit.Value(v.Bundle(plan, r1.bundle))(t)
	never := testkit.Value(ParseEnvelope(newRelease(t, k, 1, 3).manifest))(t)
	if _, err := v.Recall(never.Payload); CodeOf(err) != NotListed {
		t.Errorf("a manifest that was never accepted: %v", err)
	}
	fork := r1
	fork.manifestDoc.Policy.MaxFailures = 99
	forked := testkit.Value(ParseEnvelope(fork.relink(t, k).manifest))(t)
	if _, err := v.Recall(forked.Payload); CodeOf(err) != NotListed {
		t.Errorf("another manifest under an accepted name: %v", err)
	}
	if _, err := v.Recall(nil); CodeOf(err) != ManifestMissing {
		t.Errorf("nothing to recall: %v", err)
	}
	if _, err := Payload(b.manifest, r1.manifest); CodeOf(err) != ManifestMismatch {
		t.Errorf("the payload of another envelope: %v", err)
	}
}

func TestNothingFollowsFromNothing(t *testing.T) {
	k := newKeys(t, "1")
	r := newRelease(t, k, 1, 1)
	v := begin(t, k.root(t, 1, 1))
	_, _, e1 := v.Resolved(r.resolved, Verified[fleet.Timestamp]{})
	_, _, e2 := v.Manifest(r.manifest, Verified[fleet.Resolved]{})
	_, e3 := v.HostPlan(Verified[fleet.Manifest]{}, r.leaves[1], r.proofs[1], "web-1")
	_, e4 := v.Bundle(Verified[fleet.HostPlan]{}, r.bundle)
	_, _, e5 := v.Roster(r.roster, Verified[fleet.Resolved]{})
	_, _, e6 := v.Revocations(r.revocations, Verified[fleet.Resolved]{})
	_, e7 := v.Budget(Verified[fleet.Manifest]{}, 0, r.budget)
	_, _, e8 := v.Leaves(Verified[fleet.Manifest]{}, r.leaves)
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8} {
		if CodeOf(err) != ManifestMissing {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if _, err := (Verifier{}).Root(k.root(t, 1, 1)); CodeOf(err) != RootInvalid {
		t.Errorf("the zero verifier: %v", err)
	}
	if _, _, err := (Verifier{}).Timestamp(r.timestamp, day0); CodeOf(err) != RootInvalid {
		t.Errorf("the zero verifier: %v", err)
	}
	if _, err := NewVerifier(testFleet, State{}); CodeOf(err) != RootInvalid {
		t.Errorf("the zero state: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Value of nothing must panic")
		}
	}()
	Verified[fleet.Bundle]{}.Value()
}

// TestReport: every code is one of the four that agents report.
func TestReport(t *testing.T) {
	for code, want := range map[Code]Code{
		ManifestMissing: ManifestMissing, ManifestVerifyFailed: ManifestVerifyFailed,
		ManifestMismatch: ManifestMismatch, Stale: Stale, Malformed: ManifestVerifyFailed,
		RootInvalid: ManifestVerifyFailed, Rollback: ManifestMismatch, Equivocation: ManifestMismatch,
		WrongFleet: ManifestMismatch, WrongHost: ManifestMismatch, NotListed: ManifestMismatch,
		Expired: Stale, FutureDated: Stale,
	} {
		e := &Error{Code: code}
		if got := e.Report(); got != string(want) {
			t.Errorf("%s reports as %s, want %s", code, got, want)
		}
		if CodeOf(fmt.Errorf("wrapped: %w", e)) != code {
			t.Errorf("%s is lost in a wrapped error", code)
		}
	}
}

func TestSnapshotNeedsAFreshnessWindow(t *testing.T) {
	k := newKeys(t, "1")
	r := newRelease(t, k, 1, 1)
	c := r.resolvedDoc.Channels["stable"]
	c.FreshnessWindow = 0 * clock.Second
	r.resolvedDoc.Channels = map[string]fleet.ResolvedChannel{"stable": c}
	if _, err := r.snapshot(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != Malformed {
		t.Errorf("got %v", err)
	}
}
