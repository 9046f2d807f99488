package fleet

import "testing"

// TestControlFailuresReadWithoutGaps: what a control leaves out is not said.
func TestControlFailuresReadWithoutGaps(t *testing.T) {
	for want, f := range map[string]ControlFailure{
		"control c (no root) fails on host a and 3 more: user is 0": {Control: "c", Title: "no root", Hosts: []string{"a", "b"}, More: 2, Detail: "user is 0"},
		"control c fails on host a":                                 {Control: "c", Hosts: []string{"a"}},
		"control c (no root) fails: user is 0":                      {Control: "c", Title: "no root", Detail: "user is 0"},
	} {
		if got := f.Message(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
