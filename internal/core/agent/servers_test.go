package agent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

const (
	atA, atB, atC = "https://a.example:8443", "https://b.example:8443", "https://10.0.0.1"
)

func TestServersAreAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		was    Servers
		signed []string
		from   string
		is     Servers
		order  []string // with no flag, enrolled at A
	}{
		"none, as of 0.1.0":      {Servers{}, nil, atA, Servers{}, []string{atA}},
		"a move":                 {Servers{}, []string{atA, atB}, atA, Servers{Signed: []string{atA, atB}, Before: atA}, []string{atA, atB}},
		"the end of the move":    {Servers{Signed: []string{atA, atB}, Before: atA}, []string{atB}, atB, Servers{Signed: []string{atB}, Before: atB}, []string{atB, atA}},
		"a mistake":              {Servers{Signed: []string{atB}, Before: atA}, []string{atC}, atB, Servers{Signed: []string{atC}, Before: atB}, []string{atC, atB, atA}},
		"the same again":         {Servers{Signed: []string{atB}, Before: atA}, []string{atB}, atB, Servers{Signed: []string{atB}, Before: atA}, []string{atB, atA}},
		"what is no address":     {Servers{}, []string{"http://a", "https://u@b", atC + "/x", atB}, atA, Servers{Signed: []string{atB}, Before: atA}, []string{atB, atA}},
		"nothing signed again":   {Servers{Signed: []string{atB}, Before: atA}, nil, atB, Servers{Signed: nil, Before: atB}, []string{atB, atA}},
		"more than there may be": {Servers{}, append(slices.Repeat([]string{atB}, fleet.MaxServers), atC), atA, Servers{Signed: slices.Repeat([]string{atB}, fleet.MaxServers), Before: atA}, []string{atB, atA}},
	} {
		t.Run(name, func(t *testing.T) {
			is := c.was.Accept(7, c.signed, c.from)
			if !slices.Equal(is.Signed, c.is.Signed) || is.Before != c.is.Before || is.Version != 7 {
				t.Errorf("%+v", is)
			}
			if got := is.Addresses("", atA); !slices.Equal(got, c.order) {
				t.Errorf("it looks at %v, expected %v", got, c.order)
			}
			if got := is.Addresses("https://flag", atA); got[0] != "https://flag" || !slices.Equal(got[1:], c.order) {
				t.Errorf("with a flag it looks at %v", got)
			}
		})
	}
}

// Whichever one of the addresses answers, it is found after each other one failed twice, and
// it stays; requests to earlier addresses that end late change nothing.
func TestOneAddressThatAnswersIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{atA, atB, atC, "https://d", "https://e"}), 1, 5, rapid.ID[string]).Draw(t, "list")
		good := rapid.SampledFrom(list).Draw(t, "good")
		a := Address{}.Use(list)
		for n := 0; a.Current() != good; n++ {
			if n > failuresAtOne*(len(list)-1) {
				t.Fatalf("%s is not found in %v", good, list)
			}
			a = a.Tried(a.Current(), false)
		}
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "late") {
			a = a.Tried(rapid.SampledFrom(list).Filter(func(x string) bool { return x != good || len(list) == 1 }).Draw(t, "other"), ok && len(list) > 1 || len(list) == 1)
			a = a.Tried(good, false).Tried(good, true) // one that broke
		}
		if a.Current() != good {
			t.Fatalf("it left %s for %s", good, a.Current())
		}
		if a = a.Use(append([]string{"https://new"}, list...)); a.Current() != good {
			t.Fatalf("a longer list makes it leave %s for %s", good, a.Current())
		}
	})
}
