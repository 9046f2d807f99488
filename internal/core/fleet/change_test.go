package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// previous is the release of sample.
func previous(t *testing.T) *Previous {
	t.Helper()
	p := resolved(t, sample(), inputs(sample()))
	prev := &Previous{Version: 7, Roster: Roster{Hosts: p.Roster}, Bundles: map[digest.Digest]Bundle{}}
	web := Bundle{Name: "web"}
	for i := range 5 {
		web.Files = append(web.Files, File{Path: fmt.Sprintf("f-%d", i)})
	}
	prev.Bundles[digest.Of([]byte("web"))] = web
	prev.Bundles[digest.Of([]byte("empty"))] = Bundle{Name: EmptyBundle}
	return prev
}

func messages(fs []Finding) []string {
	var out []string
	for _, f := range fs {
		out = append(out, fmt.Sprintf("%s %v %s", f.Severity, f.Path, f.Message))
	}
	return out
}

func TestMassChange(t *testing.T) {
	keep := func(n int) Bundle {
		b := Bundle{Name: "web"}
		for i := range n {
			b.Files = append(b.Files, File{Path: fmt.Sprintf("f-%d", i)})
		}
		return b
	}
	const meant = " if these are meant (allowMassChange: true allows all that a release removes)"
	tests := map[string]struct {
		change func(*Declaration)
		web    Bundle
		want   []string
	}{
		"nothing":              {func(*Declaration) {}, keep(5), nil},
		"one host of five":     {func(d *Declaration) { delete(d.Hosts, "web-2") }, keep(5), nil},
		"one resource of five": {func(*Declaration) {}, keep(4), nil},
		"two hosts of five": {func(d *Declaration) { delete(d.Hosts, "web-2"); delete(d.Hosts, "lab-1") }, keep(5), []string{
			"error [hosts] 2 of 5 hosts of version 7 are removed or lose their bundle: expected at most 20 % at once, or --allow-removal hosts=lab:lab-1 --allow-removal hosts=stable:web-2" + meant}},
		"hosts that lose their bundle": {func(d *Declaration) {
			for _, h := range []string{"web-1", "web-2"} {
				d.Hosts[h] = HostDecl{Channel: "stable", Tags: []string{"web"}}
			}
		}, keep(5), []string{
			"error [hosts] 2 of 5 hosts of version 7 are removed or lose their bundle: expected at most 20 % at once, or --allow-removal hosts=stable:web-1,web-2" + meant}},
		"two resources of five": {func(*Declaration) {}, keep(3), []string{
			`error [bundles web] 2 of 5 resources of bundle "web" of version 7 are removed: expected at most 20 % at once, or --allow-removal resources=web:file/f-3,file/f-4` + meant}},
		"with consent": {func(d *Declaration) { delete(d.Hosts, "web-2"); delete(d.Hosts, "lab-1"); d.AllowMassChange = true }, keep(0), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := sample()
			tc.change(d)
			d.Edges, d.Channels["lab"] = nil, sample().Channels["lab"]
			in := inputs(d)
			in.Bundles["web"], in.Previous = tc.web, previous(t)
			_, fs := Resolve(d, in)
			fs = slices.DeleteFunc(fs, func(f Finding) bool { return strings.Contains(f.Message, "declared no more") }) // TestRemoval
			if diff := cmp.Diff(tc.want, messages(fs)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Consent covers what it names and nothing beside it.
func TestRemovalCoversWhatItNames(t *testing.T) {
	remove := func(allowed []string, hosts ...string) string {
		d := sample()
		for _, h := range hosts {
			delete(d.Hosts, h)
		}
		d.Edges = nil
		in := inputs(d)
		in.Previous = previous(t)
		in.Bundles["web"] = Bundle{Name: "web"}
		for _, text := range allowed {
			r, err := ParseRemoval(text)
			if err != nil || r.String() != text {
				t.Fatalf("%q is read as %v, %v", text, r, err)
			}
			in.Removals = append(in.Removals, r)
		}
		_, fs := Resolve(d, in)
		fs = slices.DeleteFunc(fs, func(f Finding) bool { return f.Severity == Warning })
		return strings.Join(messages(fs), "\n")
	}
	const files = "resources=web:file/f-0,file/f-1,file/f-2,file/f-3,file/f-4"
	if got := remove([]string{files}, "web-2", "lab-1"); !strings.HasPrefix(got, "error [hosts] 2 of 5") || strings.Contains(got, "bundles") {
		t.Errorf("consent to resources covers: %s", got)
	}
	if got := remove([]string{"hosts=stable:web-2", "hosts=lab:lab-1"}, "web-2", "lab-1"); !strings.Contains(got, "[bundles web]") || strings.Contains(got, "[hosts]") {
		t.Errorf("consent to hosts covers: %s", got)
	}
	if got := remove([]string{files, "hosts=stable:web-2"}, "web-2", "web-1", "lab-1"); !strings.Contains(got, "3 of 5 hosts") || !strings.Contains(got, "--allow-removal hosts=lab:lab-1 --allow-removal hosts=stable:web-1 ") {
		t.Errorf("more than what was named: %s", got)
	}
	if got := remove([]string{files, "hosts=lab:web-2", "hosts=stable:lab-1"}, "web-2", "lab-1"); !strings.Contains(got, "2 of 5 hosts") {
		t.Errorf("hosts named under another channel: %s", got)
	}
	for _, bad := range []string{"", "hosts", "hosts=stable", "hosts=stable:", "hosts=:a", "volumes=stable:a", "hosts=stable:x@y", "hosts=stable:3@"} {
		if _, err := ParseRemoval(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// Many names are given by number and hash, which cover just these.
func TestRemovalOfMany(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("h-%02d", i))
	}
	r, err := ParseRemoval(removalOf(RemovedHosts, "c", names).String())
	if err != nil || r.Count != 40 || r.Names != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if left := without([]Removal{r}, RemovedHosts, "c", names); left != nil {
		t.Errorf("not covered: %v", left)
	}
	if left := without([]Removal{r}, RemovedHosts, "c", append(names[:39:39], "other")); len(left) != 40 {
		t.Errorf("others are covered: %v", left)
	}
}

// A channel that loses its hosts is one although the fleet is large; a single host is not.
func TestMassChangeOfAChannel(t *testing.T) {
	d := sample()
	prev := previous(t)
	for i := range 95 {
		name := fmt.Sprintf("more-%d", i)
		d.Hosts[name] = HostDecl{Channel: "stable", Bundle: "web"}
		prev.Roster.Hosts[name] = RosterHost{Channel: "stable", Bundle: digest.Of([]byte("web"))}
	}
	gone := func(names ...string) []string {
		for _, h := range names {
			prev.Roster.Hosts[h] = RosterHost{Channel: "lab", Bundle: digest.Of([]byte("web"))}
		}
		in := inputs(d)
		in.Bundles["web"], in.Previous = prev.Bundles[digest.Of([]byte("web"))], prev
		_, fs := Resolve(d, in)
		return messages(slices.DeleteFunc(fs, func(f Finding) bool { return f.Severity == Warning }))
	}
	if got := gone("lab-2"); got != nil {
		t.Errorf("one host of two: %q", got)
	}
	if got := gone("lab-2", "lab-3"); len(got) != 1 || !strings.Contains(got[0], `2 of 3 hosts of channel "lab"`) || !strings.Contains(got[0], "--allow-removal hosts=lab:lab-2,lab-3 ") {
		t.Errorf("two hosts of three: %q", got)
	}
}

func TestBundleThatChangesFirstInTheLastWave(t *testing.T) {
	d := sample()
	in := inputs(d)
	in.Previous = previous(t)
	in.Bundles["web"] = in.Previous.Bundles[digest.Of([]byte("web"))]
	in.Digests["web"] = digest.Of([]byte("web 2"))
	if _, fs := Resolve(d, in); len(fs) != 0 {
		t.Errorf("the canary tries web, and still: %v", messages(fs))
	}
	in.Digests["db"] = digest.Of([]byte("db 2"))
	_, fs := Resolve(d, in)
	want := []string{`warning [bundles db] bundle "db" changes first in the last wave "rest" of channel "stable": expected an earlier wave to try it`}
	if diff := cmp.Diff(want, messages(fs)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestValidateTakesTheSample(t *testing.T) {
	if fs := Validate(sample()); len(fs) != 0 {
		t.Errorf("findings: %v", messages(fs))
	}
}

func TestCyclesAreNamed(t *testing.T) {
	tests := map[string]struct {
		edges []Edge
		want  []string
	}{
		"diamond": {[]Edge{{"a", "b", ""}, {"a", "c", ""}, {"b", "d", ""}, {"c", "d", ""}}, nil},
		"three": {[]Edge{{"a", "b", ""}, {"b", "c", ""}, {"c", "a", ""}}, []string{
			"error [edges 2] host edges form a cycle: a -> b -> c -> a: expected no host to wait for itself"}},
		"behind a tail": {[]Edge{{"c", "b", ""}, {"a", "b", ""}, {"b", "c", ""}}, []string{
			"error [edges 2] host edges form a cycle: b -> c -> b: expected no host to wait for itself"}},
		"two": {[]Edge{{"a", "b", ""}, {"b", "a", ""}, {"c", "d", ""}, {"d", "c", ""}}, []string{
			"error [edges 1] host edges form a cycle: a -> b -> a: expected no host to wait for itself",
			"error [edges 3] host edges form a cycle: c -> d -> c: expected no host to wait for itself"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := sample()
			d.Hosts = map[string]HostDecl{}
			for _, h := range []string{"a", "b", "c", "d"} {
				d.Hosts[h] = HostDecl{Channel: "lab"}
			}
			d.Edges = tc.edges
			var got []string
			for _, f := range Validate(d) {
				if f.Path[0] == "edges" {
					got = append(got, messages([]Finding{f})...)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
