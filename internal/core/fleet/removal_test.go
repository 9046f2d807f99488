package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// leaving is the sample without web-2, which earlier releases had.
func leaving(t *testing.T, how map[string]RemovalDecl) (*Declaration, Inputs) {
	d := sample()
	delete(d.Hosts, "web-2")
	d.Removed = how
	in := inputs(d)
	in.Bundles[WipedBundle], in.Digests[WipedBundle] = Bundle{Name: WipedBundle, Wipe: true}, digest.Of([]byte("wiped"))
	in.Previous = previous(t)
	in.Bundles["web"] = in.Previous.Bundles[digest.Of([]byte("web"))]
	return d, in
}

func TestRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		how            map[string]RemovalDecl
		words          string
		target         digest.Digest // of the leaf; empty: there is none
		removed        Workloads
		fails, silence bool
	}{
		"unsaid":             {nil, "web-2: declared no more, and what runs there goes on for ever; to stop it write removed: {web-2: {workloads: stop}}", "", "", false, false},
		"kept":               {map[string]RemovalDecl{"web-2": {Workloads: Keep}}, "", "", "", false, true},
		"stopped":            {map[string]RemovalDecl{"web-2": {Workloads: Stop}}, "it runs bundle web; its containers are stopped and kept", digest.Of([]byte("empty")), Stop, false, false},
		"wiped":              {map[string]RemovalDecl{"web-2": {Workloads: Wipe}}, "nothing brings them back", digest.Of([]byte("wiped")), Wipe, false, false},
		"nobody knows where": {map[string]RemovalDecl{"web-9": {Workloads: Stop}}, "expected channel: and the channel that it was in", "", "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, in := leaving(t, c.how)
			p, fs := Resolve(d, in)
			if hasErrors(fs) != c.fails {
				t.Fatalf("findings: %v", messages(fs))
			}
			if said := slices.ContainsFunc(messages(fs), func(m string) bool { return strings.Contains(m, c.words) }); said == c.silence {
				t.Fatalf("findings: %v, expected %q", messages(fs), c.words)
			}
			stable := p.Channels[1]
			i := slices.IndexFunc(stable.Leaves, func(l Leaf) bool { return l.Host == "web-2" })
			switch {
			case c.target == "" && i >= 0:
				t.Fatalf("it has the leaf %+v", stable.Leaves[i])
			case c.target == "":
			case i < 0:
				t.Fatal("it has no leaf")
			default:
				l := stable.Leaves[i]
				if l.Target != c.target || l.Removed != c.removed || l.Wave != len(stable.Header.Waves)-1 || len(l.Probes) > 0 || p.Roster["web-2"].Removed != c.removed {
					t.Fatalf("leaf %+v, roster %+v", l, p.Roster["web-2"])
				}
			}
		})
	}
}

func TestRemovalIsChecked(t *testing.T) {
	for words, how := range map[string]map[string]RemovalDecl{
		"expected one of the two":      {"web-1": {Workloads: Stop}},
		"expected keep, stop or wipe":  {"web-9": {Workloads: "burn"}},
		`channel "nowhere"`:            {"web-9": {Workloads: Stop, Channel: "nowhere"}},
		"1 to 63 of a-z 0-9 . _ - and": {"WEB": {Workloads: Stop}},
	} {
		d := sample()
		d.Removed = how
		if fs := Validate(d); !strings.Contains(fmt.Sprint(messages(fs)), strings.TrimSuffix(words, " and")) {
			t.Errorf("findings: %v, expected %q", messages(fs), words)
		}
	}
}

// TestRenamedHosts: a host may be what no other is any more, and its change of names is no
// removal.
func TestRenamedHosts(t *testing.T) {
	for words, change := range map[string]func(*Declaration, HostDecl){
		"declared under hosts": func(d *Declaration, h HostDecl) { h.RenamedFrom = "web-2"; d.Hosts["box"] = h },
		"is removed": func(d *Declaration, h HostDecl) {
			h.RenamedFrom = "web-9"
			d.Hosts["box"], d.Removed = h, map[string]RemovalDecl{"web-9": {Workloads: Keep}}
		},
		"were both host": func(d *Declaration, h HostDecl) {
			h.RenamedFrom = "web-9"
			d.Hosts["box"], d.Hosts["bux"] = h, h
		},
		"1 to 63 of a-z": func(d *Declaration, h HostDecl) { h.RenamedFrom = "No Name"; d.Hosts["box"] = h },
	} {
		d := sample()
		change(d, d.Hosts["web-1"])
		if fs := Validate(d); !strings.Contains(fmt.Sprint(messages(fs)), words) {
			t.Errorf("findings: %v, expected %q", messages(fs), words)
		}
	}
	d, in := leaving(t, nil)
	for _, from := range []string{"lab-1", "web-2"} { // two of five
		h := d.Hosts[from]
		delete(d.Hosts, from)
		if h.Channel == "" {
			h.Channel = in.Previous.Roster.Hosts[from].Channel
		}
		h.RenamedFrom = from
		d.Hosts["new-"+from] = h
	}
	p, fs := Resolve(d, in)
	if text := fmt.Sprint(messages(fs)); strings.Contains(text, "of 5 hosts") || strings.Contains(text, "declared no more") {
		t.Errorf("findings: %s", text)
	}
	if got := p.Roster["new-web-2"].RenamedFrom; got != "web-2" {
		t.Errorf("the roster says that it was %q", got)
	}
}

// TestRemovalIsAMassChange: what is stopped or wiped counts when it leaves and when its data
// goes, and not again when its line goes.
func TestRemovalIsAMassChange(t *testing.T) {
	for name, c := range map[string]struct {
		before, now Workloads
		counts      bool
	}{
		"leaves": {"", Stop, true}, "is wiped then": {Stop, Wipe, true}, "stays away": {Stop, Stop, false}, "is forgotten": {Wipe, "", false},
	} {
		d, in := leaving(t, nil)
		delete(d.Hosts, "lab-1") // one of five may go
		if c.now != "" {
			d.Removed = map[string]RemovalDecl{"web-2": {Workloads: c.now}}
		}
		h := in.Previous.Roster.Hosts["web-2"]
		h.Removed = c.before
		in.Previous.Roster.Hosts["web-2"] = h
		if _, fs := Resolve(d, in); strings.Contains(fmt.Sprint(messages(fs)), "2 of 5 hosts") != c.counts {
			t.Errorf("%s: %v", name, messages(fs))
		}
	}
}

// TestOnlyTheDeclarationWipes: whatever is declared, a host is given the bundle that wipes
// if and only if its removal says wipe, and nothing then sends it back.
func TestOnlyTheDeclarationWipes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt)
		in := inputs(d)
		in.Bundles[WipedBundle], in.Digests[WipedBundle] = Bundle{Name: WipedBundle, Wipe: true}, digest.Of([]byte("wiped"))
		channels := keys(d.Channels)
		d.Removed = map[string]RemovalDecl{}
		for i := range rapid.IntRange(0, 3).Draw(rt, "removed") {
			d.Removed[fmt.Sprintf("gone-%d", i)] = RemovalDecl{Channel: rapid.SampledFrom(channels).Draw(rt, "channel"),
				Workloads: rapid.SampledFrom([]Workloads{Keep, Stop, Wipe}).Draw(rt, "workloads")}
		}
		if fs := Validate(d); hasErrors(fs) {
			return
		}
		p, fs := Resolve(d, in)
		if hasErrors(fs) {
			return
		}
		for _, cp := range p.Channels {
			for i := range cp.Leaves {
				l := &cp.Leaves[i]
				wiped := d.Removed[l.Host].Workloads == Wipe
				hp := HostPlanOf(&cp.Header, "m", l)
				if (l.Target == in.Digests[WipedBundle]) != wiped || (l.Removed == Wipe) != wiped {
					rt.Fatalf("%s is given %s as %q, declared is %q", l.Host, l.Target, l.Removed, d.Removed[l.Host].Workloads)
				}
				if wiped && (hp.Policy.OnHealthFailure != Halt || hp.Policy.ConfirmWindow != 0 || !hp.AllowVolumeDelete) {
					rt.Fatalf("what was wiped may come back: %+v", hp.Policy)
				}
				if !wiped && hp.AllowVolumeDelete != d.AllowVolumeDelete {
					rt.Fatalf("%s loses its volumes", l.Host)
				}
			}
		}
	})
}
