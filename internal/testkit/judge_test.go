package testkit

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	const p = "internal/x"
	janus, caddy, root := JanusGateway.Name, CaddyServer.Name, Root.Name
	needs := func(test, component string, found bool) need {
		return need{Package: p, Test: test, Component: component, Found: found}
	}
	for name, c := range map[string]struct {
		before, now []need
		results     map[place]result
		fault       string // none if it is empty
		left        string
	}{
		"left out":                   {[]need{needs("TestA", janus, true)}, []need{needs("TestA", janus, false)}, map[place]result{{p, "TestA"}: {"skip", ""}}, "", "1 left out for want of Janus:\n  internal/x: TestA"},
		"a subtest is left out":      {[]need{needs("TestA/b", janus, true)}, []need{needs("TestA/b", janus, false)}, map[place]result{{p, "TestA"}: {"pass", ""}, {p, "TestA/b"}: {"skip", ""}}, "", "internal/x: TestA"},
		"before its subtests":        {[]need{needs("TestA", caddy, true), needs("TestA/b", janus, true)}, []need{needs("TestA", caddy, false)}, map[place]result{{p, "TestA"}: {"skip", ""}}, "", "TestA"},
		"a failure":                  {nil, nil, map[place]result{{p, "TestA"}: {"fail", "24 secrets were planted"}}, "24 secrets were planted", ""},
		"a package that fails":       {nil, nil, map[place]result{{p, ""}: {"fail", "panic"}}, "internal/x fails", ""},
		"passes all the same":        {[]need{needs("TestA", janus, true)}, nil, map[place]result{{p, "TestA"}: {"pass", ""}}, "passes without", ""},
		"is not run":                 {[]need{needs("TestA", janus, true)}, nil, nil, "did not run", ""},
		"finds what is hidden":       {nil, []need{needs("TestA", janus, true)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "was to be hidden", ""},
		"needs it, and passes":       {nil, []need{needs("TestA", janus, false)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "not left out: pass", ""},
		"needs it, and does not end": {nil, []need{needs("TestA", janus, false)}, nil, "it did not end", ""},
		"root is there":              {nil, []need{needs("TestA", root, true)}, map[place]result{{p, "TestA"}: {"pass", ""}}, "", ""},
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
`), io.Discard)
	Must(t, err)
	for at, want := range map[place]result{{"internal/y", ""}: {"fail", "undefined: x\n"}, {"internal/x", "TestA"}: {"skip", "no janus"}} {
		if results[at] != want {
			t.Errorf("%s is %+v, expected %+v", at, results[at], want)
		}
	}
}

func TestSelection(t *testing.T) {
	got := selection([]need{{Package: "internal/x", Test: "TestB/sub"}, {Package: "internal/w", Test: "TestA"}, {Package: "internal/x", Test: "TestB"}})
	if want := []string{"-run", "^(TestA|TestB)$", "./internal/x", "./internal/w"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestHidden(t *testing.T) {
	h := hidden()
	for _, there := range []string{Git.Name, Root.Name, Tmpfs.Name, History.Name} {
		if h[there] {
			t.Errorf("%s is hidden", there)
		}
	}
	for _, c := range []Component{Chromium, Engine, Nix, MediaMTX} {
		if !h[c.Name] {
			t.Errorf("%s is not hidden", c.Name)
		}
	}
}
