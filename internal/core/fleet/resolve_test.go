package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func after(d clock.Duration) DurationText { return DurationText{Duration: d, Set: true} }

// sample is a declaration without errors.
func sample() *Declaration {
	one, half := 1, 50
	return &Declaration{
		APIVersion: APIVersion, Kind: Kind, Metadata: Metadata{Name: "acme"},
		Hosts: map[string]HostDecl{
			"canary-1": {Channel: "stable", Tags: []string{"web", "canary"}, Bundle: "web"},
			"web-1":    {Channel: "stable", Tags: []string{"web"}, Bundle: "web"},
			"web-2":    {Channel: "stable", Tags: []string{"web"}, Bundle: "web"},
			"db-1":     {Channel: "stable", Tags: []string{"db"}, Bundle: "db"},
			"lab-1":    {Channel: "lab", Tags: []string{"web"}, Managed: []string{"workspace", "image"}},
		},
		Channels: map[string]ChannelDecl{
			"stable": {RolloutPolicy: "careful", FreshnessWindow: after(clock.Day)},
			"lab":    {RolloutPolicy: "once", FreshnessWindow: after(clock.Day), OnNewRef: Supersede},
		},
		RolloutPolicies: map[string]PolicyDecl{
			"careful": {Waves: []WaveDecl{
				{Name: "canary", Selector: Selector{Tags: []string{"canary"}}, Soak: after(clock.Minute), MinSoaked: Quorum{Count: 1}},
				{Name: "rest", Selector: Selector{All: true}},
			}, ConfirmWindow: after(0)},
			"once": {Waves: []WaveDecl{{Name: "all", Selector: Selector{All: true}}}},
		},
		Edges: []Edge{{Gated: "web-1", Gates: "db-1"}, {Gated: "web-1", Gates: "canary-1"}, {Gated: "web-1", Gates: "db-1"}},
		DisruptionBudgets: []BudgetDecl{
			{Selector: Selector{Tags: []string{"web"}}, MaxInFlightPct: &half},
			{Selector: Selector{Tags: []string{"db"}}, MaxInFlight: &one},
		},
		Bundles: map[string]BundleDecl{"web": {Path: "web"}, "db": {Path: "db"}},
	}
}

func inputs(d *Declaration) Inputs {
	in := Inputs{Ref: "r1", Bundles: map[string]Bundle{}, Digests: map[string]digest.Digest{}, BundleProbes: map[string]ProbeSet{}}
	in.Bundles[""] = Bundle{Name: EmptyBundle}
	in.Digests[""] = digest.Of([]byte("empty"))
	for _, n := range keys(d.Bundles) {
		in.Bundles[n] = Bundle{Name: n}
		in.Digests[n] = digest.Of([]byte(n))
	}
	return in
}

func resolved(t *testing.T, d *Declaration, in Inputs) Plan {
	t.Helper()
	if fs := Validate(d); hasErrors(fs) {
		t.Fatalf("the declaration is wrong: %+v", fs)
	}
	p, fs := Resolve(d, in)
	if hasErrors(fs) {
		t.Fatalf("resolve: %+v", fs)
	}
	return p
}

func TestResolveFillsDefaults(t *testing.T) {
	p := resolved(t, sample(), inputs(sample()))
	lab, stable := p.Channels[0], p.Channels[1]
	wantPolicy := Policy{
		Name: "once", OnHealthFailure: RollbackAndHalt, ConfirmWindow: 2 * clock.Minute,
		ActivationDeadline: 10 * clock.Minute, SustainedFailure: clock.Minute, GrantExpiry: 10 * clock.Minute,
	}
	if d := cmp.Diff(wantPolicy, lab.Header.Policy); d != "" {
		t.Errorf("policy (-want +got):\n%s", d)
	}
	if stable.Header.Policy.ConfirmWindow != 0 {
		t.Error("a confirm window of 0s was not kept: it turns the dead-man's switch off")
	}
	want := ResolvedChannel{
		Ref: "r1", FreshnessWindow: clock.Day, SigningInterval: clock.Hour, ReconcileInterval: 30 * clock.Second,
		OnNewRef: Queue, Manifests: []ManifestRef{},
	}
	if d := cmp.Diff(want, stable.Settings); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
	if lab.Settings.OnNewRef != Supersede {
		t.Errorf("onNewRef %q", lab.Settings.OnNewRef)
	}
}

func TestResolveLeaves(t *testing.T) {
	p := resolved(t, sample(), inputs(sample()))
	stable := p.Channels[1]
	want := []Leaf{
		{Host: "canary-1", Wave: 0, Target: digest.Of([]byte("web")), Probes: []int{}, Budgets: []int{0}, After: []string{}},
		{Host: "db-1", Wave: 1, Target: digest.Of([]byte("db")), Probes: []int{}, Budgets: []int{1}, After: []string{}},
		{Host: "web-1", Wave: 1, Target: digest.Of([]byte("web")), Probes: []int{}, Budgets: []int{0}, After: []string{"canary-1", "db-1"}},
		{Host: "web-2", Wave: 1, Target: digest.Of([]byte("web")), Probes: []int{}, Budgets: []int{0}, After: []string{}},
	}
	if d := cmp.Diff(want, stable.Leaves); d != "" {
		t.Errorf("leaves (-want +got):\n%s", d)
	}
	lab := p.Channels[0]
	if lab.Leaves[0].Target != digest.Of([]byte("empty")) {
		t.Error("a host without a bundle is not given the empty one")
	}
	// The web budget counts lab-1 too: members are the whole fleet's.
	if b := stable.Header.Budgets[0]; b.Max != 2 || b.Members != lab.Header.Budgets[0].Members || len(lab.Header.Budgets) != 1 {
		t.Errorf("budgets: stable %+v, lab %+v", stable.Header.Budgets, lab.Header.Budgets)
	}
	if got := p.Roster["lab-1"].Managed; !slices.Equal(got, []string{"image", "workspace"}) {
		t.Errorf("managed %v", got)
	}
}

func TestResolveTwoSpellingsShareABudget(t *testing.T) {
	d := sample()
	two, one := 2, 1
	d.DisruptionBudgets = []BudgetDecl{
		{Selector: Selector{Tags: []string{"db"}}, MaxInFlight: &two},
		{Selector: Selector{Hosts: []string{"db-1"}}, MaxInFlight: &one},
	}
	p := resolved(t, d, inputs(d))
	if b := p.Channels[1].Header.Budgets; len(b) != 1 || b[0].Max != 1 {
		t.Errorf("budgets %+v", b)
	}
	if len(p.Budgets) != 1 {
		t.Errorf("members %+v", p.Budgets)
	}
}

func TestProbePrecedence(t *testing.T) {
	probe := func(port int) ProbeDecl {
		return ProbeDecl{TCP: &TCPProbe{Address: fmt.Sprintf("localhost:%d", port)}}
	}
	// Scopes from wide to narrow; each case fills those of its bits.
	scopes := []string{"bundle", "fleet", "tag", "channel", "host"}
	for bits := 1; bits < 1<<len(scopes); bits++ {
		d, narrowest := sample(), 0
		in := inputs(d)
		var names []string
		for i, scope := range scopes {
			if bits&(1<<i) == 0 {
				continue
			}
			narrowest = i
			names = append(names, scope)
			set := ProbeSet{"up": probe(i + 1), "only-" + scope: probe(100)}
			switch scope {
			case "bundle":
				in.BundleProbes["web"] = set
			case "fleet":
				d.Probes = set
			case "tag":
				d.TagProbes = map[string]ProbeSet{"web": set}
			case "channel":
				c := d.Channels["stable"]
				c.Probes = set
				d.Channels["stable"] = c
			case "host":
				h := d.Hosts["web-1"]
				h.Probes = set
				d.Hosts["web-1"] = h
			}
		}
		t.Run(strings.Join(names, "+"), func(t *testing.T) {
			p := resolved(t, d, in)
			stable := p.Channels[1]
			got := map[string]string{}
			for _, i := range stable.Leaves[2].Probes {
				pr := stable.Header.Probes[i]
				got[pr.Name] = pr.TCP.Address
			}
			want := map[string]string{"up": fmt.Sprintf("localhost:%d", narrowest+1)}
			for _, n := range names {
				want["only-"+n] = "localhost:100"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("probes of web-1 (-want +got):\n%s", diff)
			}
		})
	}
}

// A narrower probe replaces the whole: nothing of the wider one shines through.
func TestProbeIsReplacedWhole(t *testing.T) {
	d := sample()
	d.Probes = ProbeSet{"up": {Mode: Observe, Interval: after(clock.Minute), Timeout: after(9 * clock.Second), TCP: &TCPProbe{Address: "a:1"}}}
	h := d.Hosts["web-1"]
	h.Probes = ProbeSet{"up": {Exec: &ExecProbe{Command: []string{"true"}}}}
	d.Hosts["web-1"] = h
	p := resolved(t, d, inputs(d))
	stable := p.Channels[1]
	want := Probe{Name: "up", Mode: Enforce, Interval: 30 * clock.Second, Timeout: 10 * clock.Second, Exec: &ExecProbe{Command: []string{"true"}}}
	if d := cmp.Diff(want, stable.Header.Probes[stable.Leaves[2].Probes[0]]); d != "" {
		t.Errorf("probe (-want +got):\n%s", d)
	}
}

func TestProbeDefaults(t *testing.T) {
	tests := map[string]struct {
		in   ProbeDecl
		want Probe
	}{
		"http":                   {ProbeDecl{HTTP: &HTTPProbe{URL: "http://x/"}}, Probe{Interval: 30 * clock.Second, Timeout: 3 * clock.Second, HTTP: &HTTPProbe{URL: "http://x/", ExpectStatus: 200}}},
		"http with a status":     {ProbeDecl{HTTP: &HTTPProbe{URL: "http://x/", ExpectStatus: 204}}, Probe{Interval: 30 * clock.Second, Timeout: 3 * clock.Second, HTTP: &HTTPProbe{URL: "http://x/", ExpectStatus: 204}}},
		"tcp":                    {ProbeDecl{TCP: &TCPProbe{Address: "x:1"}}, Probe{Interval: 30 * clock.Second, Timeout: 3 * clock.Second, TCP: &TCPProbe{Address: "x:1"}}},
		"exec":                   {ProbeDecl{Exec: &ExecProbe{Command: []string{"x"}}}, Probe{Interval: 30 * clock.Second, Timeout: 10 * clock.Second, Exec: &ExecProbe{Command: []string{"x"}}}},
		"a timeout fits the gap": {ProbeDecl{Interval: after(clock.Second), Exec: &ExecProbe{Command: []string{"x"}}}, Probe{Interval: clock.Second, Timeout: clock.Second, Exec: &ExecProbe{Command: []string{"x"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.want.Name, tc.want.Mode = "p", Enforce
			if d := cmp.Diff(tc.want, resolveProbe("p", tc.in)); d != "" {
				t.Errorf("probe (-want +got):\n%s", d)
			}
		})
	}
}

func TestBudgetMax(t *testing.T) {
	n := func(v int) *int { return &v }
	tests := []struct {
		count, pct *int
		members    int
		want       int
	}{
		{n(3), nil, 10, 3}, {n(3), nil, 2, 2}, {nil, n(25), 10, 2}, {nil, n(25), 3, 1}, {nil, n(100), 7, 7},
		{n(1), n(50), 10, 1}, {n(9), n(50), 10, 5}, {nil, n(1), 1, 1}, {nil, n(33), 3, 1}, {nil, n(34), 3, 1}, {nil, n(67), 3, 2},
	}
	for _, tc := range tests {
		if got := budgetMax(BudgetDecl{MaxInFlight: tc.count, MaxInFlightPct: tc.pct}, tc.members); got != tc.want {
			t.Errorf("count %v, pct %v of %d: got %d, want %d", tc.count, tc.pct, tc.members, got, tc.want)
		}
	}
}

// draw makes declarations that mostly pass Validate.
func draw(rt *rapid.T) *Declaration {
	d := sample()
	d.Edges, d.DisruptionBudgets, d.Hosts = nil, nil, map[string]HostDecl{}
	tags := []string{"canary", "web", "db", "eu", "us"}
	for i := range rapid.IntRange(1, 30).Draw(rt, "hosts") {
		d.Hosts[fmt.Sprintf("h-%d", i)] = HostDecl{
			Channel: rapid.SampledFrom([]string{"stable", "lab"}).Draw(rt, "channel"),
			Tags:    rapid.SliceOfNDistinct(rapid.SampledFrom(tags), 0, 3, rapid.ID[string]).Draw(rt, "tags"),
			Bundle:  rapid.SampledFrom([]string{"web", "db", ""}).Draw(rt, "bundle"),
		}
	}
	var waves []WaveDecl
	for i := range rapid.IntRange(0, 3).Draw(rt, "waves") {
		waves = append(waves, WaveDecl{Name: fmt.Sprintf("w-%d", i), AllowEmpty: true, Selector: drawSelector(rt, tags, 2)})
	}
	p := d.RolloutPolicies["careful"]
	p.Waves = append(waves, WaveDecl{Name: "rest", Selector: Selector{All: true}})
	d.RolloutPolicies["careful"] = p
	for range rapid.IntRange(0, 4).Draw(rt, "budgets") {
		b := BudgetDecl{Selector: drawSelector(rt, tags, 2)}
		if rapid.Bool().Draw(rt, "by count") {
			n := rapid.IntRange(1, 10).Draw(rt, "count")
			b.MaxInFlight = &n
		}
		if b.MaxInFlight == nil || rapid.Bool().Draw(rt, "both") {
			n := rapid.IntRange(1, 100).Draw(rt, "pct")
			b.MaxInFlightPct = &n
		}
		d.DisruptionBudgets = append(d.DisruptionBudgets, b)
	}
	for _, t := range tags {
		if rapid.Bool().Draw(rt, "tag probe") {
			d.TagProbes = map[string]ProbeSet{t: {"p-" + t: {TCP: &TCPProbe{Address: "localhost:1"}}}}
		}
	}
	return d
}

func drawSelector(rt *rapid.T, tags []string, depth int) Selector {
	s := Selector{
		Tags:    rapid.SliceOfN(rapid.SampledFrom(tags), 0, 2).Draw(rt, "s.tags"),
		TagsAny: rapid.SliceOfN(rapid.SampledFrom(tags), 0, 2).Draw(rt, "s.tagsAny"),
		All:     rapid.IntRange(0, 9).Draw(rt, "s.all") == 0,
	}
	if depth > 0 && rapid.Bool().Draw(rt, "s.not") {
		n := drawSelector(rt, tags, depth-1)
		s.Not = &n
	}
	return s
}

// Every host of a channel is in exactly one wave, the first that picks it;
// leaves are sorted; budgets count the hosts that their selector picks.
func TestResolveProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt)
		if fs := Validate(d); hasErrors(fs) {
			rt.Fatalf("drew a wrong declaration: %+v", fs)
		}
		p, fs := Resolve(d, inputs(d))
		if hasErrors(fs) {
			rt.Fatalf("resolve: %+v", fs)
		}
		seen := map[string]bool{}
		for _, cp := range p.Channels {
			perWave := make([]int, len(cp.Header.Waves))
			for i, l := range cp.Leaves {
				h := d.Hosts[l.Host]
				if seen[l.Host] || h.Channel != cp.Name {
					rt.Fatalf("host %s is in two plans or in another channel's", l.Host)
				}
				seen[l.Host] = true
				if i > 0 && cp.Leaves[i-1].Host >= l.Host {
					rt.Fatalf("leaves are not sorted at %s", l.Host)
				}
				perWave[l.Wave]++
				waves := d.RolloutPolicies[d.Channels[cp.Name].RolloutPolicy].Waves
				for w := range l.Wave + 1 {
					if waves[w].Selector.Matches(l.Host, h.Channel, h.Tags) != (w == l.Wave) {
						rt.Fatalf("host %s is in wave %d, and wave %d decides otherwise", l.Host, l.Wave, w)
					}
				}
				checkBudgets(rt, d, &p, &cp, &l)
			}
			for w, n := range perWave {
				if cp.Header.Waves[w].Hosts != n {
					rt.Fatalf("wave %d has %d hosts, the header says %d", w, n, cp.Header.Waves[w].Hosts)
				}
			}
			if cp.Header.LeafCount != len(cp.Leaves) {
				rt.Fatalf("%d leaves, the header says %d", len(cp.Leaves), cp.Header.LeafCount)
			}
		}
		if len(seen) != len(d.Hosts) || len(p.Roster) != len(d.Hosts) {
			rt.Fatalf("%d of %d hosts have a leaf, %d are in the roster", len(seen), len(d.Hosts), len(p.Roster))
		}
	})
}

// checkBudgets compares a leaf's budgets with the declared ones that pick it:
// each of those is covered by one of the same members and no higher maximum.
func checkBudgets(rt *rapid.T, d *Declaration, p *Plan, cp *ChannelPlan, l *Leaf) {
	have := map[digest.Digest]int{}
	for _, i := range l.Budgets {
		have[cp.Header.Budgets[i].Members] = cp.Header.Budgets[i].Max
	}
	want := map[digest.Digest]int{}
	for _, b := range d.DisruptionBudgets {
		members := selected(d, &b.Selector)
		if !slices.Contains(members, l.Host) {
			continue
		}
		limit := len(members)
		if b.MaxInFlight != nil {
			limit = min(limit, *b.MaxInFlight)
		}
		if b.MaxInFlightPct != nil {
			limit = min(limit, len(members)**b.MaxInFlightPct/100)
		}
		key := digest.Of(BudgetMembers{Type: TypeBudget, Hosts: members}.Bytes())
		if old, ok := want[key]; !ok || max(limit, 1) < old {
			want[key] = max(limit, 1)
		}
		if !slices.ContainsFunc(p.Budgets, func(m BudgetMembers) bool { return digest.Of(m.Bytes()) == key }) {
			rt.Fatalf("the members of budget %s are not in the plan", key)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		rt.Fatalf("budgets of %s (-want +got):\n%s", l.Host, diff)
	}
}

func TestResolveIsDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt)
		raw := testkit.Value(json.Marshal(d))(rt)
		var same Declaration
		testkit.Must(rt, json.Unmarshal(raw, &same))
		a, fa := Resolve(d, inputs(d))
		b, fb := Resolve(&same, inputs(&same))
		if diff := cmp.Diff(a, b); diff != "" || !cmp.Equal(fa, fb) {
			rt.Fatalf("two runs differ:\n%s", diff)
		}
	})
}

// TestResourcesAreProbed: a host whose bundle has a workspace is given the built-in
// probe beside the declared ones; one whose bundle runs nothing, or says resources:
// false, is not; and nobody can declare a probe of that name.
func TestResourcesAreProbed(t *testing.T) {
	runs := &spec.Set{Workspaces: []spec.Workspace{{Name: "app", Image: "app"}}}
	for name, c := range map[string]struct {
		set  *spec.Set
		off  bool
		want []string
	}{
		"runs a container": {runs, false, []string{ResourcesName, "up"}},
		"says no":          {runs, true, []string{"up"}},
		"files alone":      {nil, false, []string{"up"}},
		"networks alone":   {&spec.Set{Networks: []spec.Network{{Name: "net"}}}, false, []string{"up"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := sample()
			d.Probes = ProbeSet{"up": {TCP: &TCPProbe{Address: "localhost:1"}}}
			in := inputs(d)
			in.Bundles["web"] = Bundle{Name: "web", Containers: c.set}
			in.NoResources = map[string]bool{"web": c.off}
			stable := resolved(t, d, in).Channels[1]
			var got []string
			for _, i := range stable.Leaves[2].Probes {
				p := stable.Header.Probes[i]
				if got = append(got, p.Name); p.Name == ResourcesName && (p.Resources == nil || p.Mode != Enforce || p.Interval < MinProbeInterval) {
					t.Errorf("the built-in probe is %+v", p)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v probes, expected %v", got, c.want)
			}
		})
	}
	d := sample()
	d.Probes = ProbeSet{ResourcesName: {TCP: &TCPProbe{Address: "localhost:1"}}}
	if fs := Validate(d); !hasErrors(fs) || !strings.Contains(fmt.Sprint(fs), "built-in") {
		t.Errorf("a declared probe has the name: %v", fs)
	}
}

func hasErrors(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}
