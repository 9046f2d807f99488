package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestJudge(t *testing.T) {
	const p = "internal/x"
	janus, caddy, root := testkit.JanusGateway.Name, testkit.CaddyServer.Name, testkit.Root.Name
	ask := func(test, component string, found bool) testkit.Asked {
		return testkit.Asked{Package: p, Test: test, Component: component, Found: found}
	}
	for name, c := range map[string]struct {
		before, now []testkit.Asked
		results     map[place]result
		fault       string // none if it is empty
		left        string
	}{
		"left out":               {[]testkit.Asked{ask("TestA", janus, true)}, []testkit.Asked{ask("TestA", janus, false)}, map[place]result{{p, "TestA"}: {"skip", ""}}, "", "1 left out for want of Janus:\n  internal/x TestA"},
		"a subtest is left out":  {[]testkit.Asked{ask("TestA/b", janus, true)}, []testkit.Asked{ask("TestA/b", janus, false)}, map[place]result{{p, "TestA"}: {"pass", ""}, {p, "TestA/b"}: {"skip", ""}}, "", "TestA/b"},
		"before its subtests":    {[]testkit.Asked{ask("TestA", caddy, true), ask("TestA/b", janus, true)}, []testkit.Asked{ask("TestA", caddy, false)}, map[place]result{{p, "TestA"}: {"skip", ""}}, "", "TestA"},
		"a failure":              {nil, nil, map[place]result{{p, "TestA"}: {"fail", "24 secrets were planted"}}, "24 secrets were planted", ""},
		"a package that fails":   {nil, nil, map[place]result{{p, ""}: {"fail", "panic"}}, "internal/x fails", ""},
		"passes all the same":    {[]testkit.Asked{ask("TestA", janus, true)}, nil, map[place]result{{p, "TestA"}: {"pass", ""}}, "passes without", ""},
		"is not run":             {[]testkit.Asked{ask("TestA", janus, true)}, nil, nil, "did not run", ""},
		"finds what is hidden":   {nil, []testkit.Asked{ask("TestA", janus, true)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "was to be hidden", ""},
		"asks, and passes":       {nil, []testkit.Asked{ask("TestA", janus, false)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "not left out: pass", ""},
		"asks, and does not end": {nil, []testkit.Asked{ask("TestA", janus, false)}, nil, "it did not end", ""},
		"root is there":          {nil, []testkit.Asked{ask("TestA", root, true)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			left, faults := judge(c.before, c.now, c.results)
			if got := strings.Join(faults, "\n"); (got == "") != (c.fault == "") || !strings.Contains(got, c.fault) {
				t.Errorf("wrong is %q, expected %q", got, c.fault)
			}
			if got := strings.Join(left, "\n"); !strings.Contains(got, c.left) {
				t.Errorf("left out is %q, expected %q", got, c.left)
			}
		})
	}
}

func TestParse(t *testing.T) {
	results, err := parse(strings.NewReader(`{"ImportPath":"github.com/steadyfleet/steady/internal/y","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"github.com/steadyfleet/steady/internal/y","Action":"build-fail"}
{"Action":"output","Package":"github.com/steadyfleet/steady/internal/x","Test":"TestA","Output":"no "}
{"Action":"output","Package":"github.com/steadyfleet/steady/internal/x","Test":"TestA","Output":"janus"}
{"Action":"skip","Package":"github.com/steadyfleet/steady/internal/x","Test":"TestA"}
`))
	testkit.Must(t, err)
	for at, want := range map[place]result{{"internal/y", ""}: {"fail", "undefined: x\n"}, {"internal/x", "TestA"}: {"skip", "no janus"}} {
		if results[at] != want {
			t.Errorf("%s is %+v, expected %+v", at, results[at], want)
		}
	}
}

func TestSelection(t *testing.T) {
	got := selection([]testkit.Asked{{Package: "internal/x", Test: "TestB/sub"}, {Package: "internal/w", Test: "TestA"}, {Package: "internal/x", Test: "TestB"}})
	if want := []string{"-run", "^(TestA|TestB)$", "./internal/w", "./internal/x"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestHidden(t *testing.T) {
	h := hidden()
	for _, there := range []string{testkit.Git.Name, testkit.Root.Name, testkit.Tmpfs.Name, testkit.History.Name} {
		if h[there] {
			t.Errorf("%s is hidden", there)
		}
	}
	for _, c := range []testkit.Component{testkit.Chromium, testkit.Engine, testkit.Nix, testkit.MediaMTX} {
		if !h[c.Name] {
			t.Errorf("%s is not hidden", c.Name)
		}
	}
}
