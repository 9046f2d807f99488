package nodetest

import (
	"fmt"
	"strings"
	"testing"
)

// testCase is one of the suite. Needs returns why it does not apply, or nothing.
type testCase struct {
	name  string
	needs func(h *Harness, d *Device) string
	run   func(r *rig)
}

// cases in the order of the table.
var cases = []testCase{
	{"create, read, replace, delete", nil, lifecycle},
	{"what is made is read", nil, readable},
	{"edits replace", nil, takenAway},
	{"other objects stay", needsMany, othersStay},
	{"create and delete are idempotent", nil, idempotent},
	{"duplicate create", nil, duplicate},
	{"lost acknowledgement", nil, lostAcknowledgement},
	{"hand edit by file", needs("no file to edit", func(d *Device) bool { return d.EditByFile != nil }), editByFile},
	{"hand edit by API", needs("no API to edit by", func(d *Device) bool { return d.EditByAPI != nil }), editByAPI},
	{"edit between read and apply", needs("no way to edit by hand, or the device has no revisions", func(d *Device) bool { return d.edit() != nil && !d.NoRevisions }), editInBetween},
	{"accepted and forgotten", nil, forgotten},
	{"accepted as something else", nil, somethingElse},
	{"edit between apply and read", needs("no way to edit by hand", func(d *Device) bool { return d.edit() != nil }), editAfter},
	{"restart with persistence", needs("the device cannot be restarted", func(d *Device) bool { return d.Restart != nil }), restart},
	{"restart without persistence", needs("the device keeps what it has", func(d *Device) bool { return d.RestartEmpty != nil }), restartEmpty},
	{"restart of the node", nil, restartNode},
	{"busy port", needs("its objects have no ports", func(d *Device) bool { return d.BusyPort != nil }), busyPort},
	{"error after the change", nil, errorAfter},
	{"partial apply with an error", needs("the device cannot be made to", func(d *Device) bool { return d.Partial != nil }), partial},
	{"many edits at once", needsMany, manyAtOnce},
	{"unknown field", nil, unknownField},
	{"Normalize keeps what it does not know", nil, unknownKept},
	{"every kind of value", nil, valuesKept},
	{"secret in a snapshot", needsSecret, secrets},
	{"undo of a deletion", nil, undo},
	{"Normalize is pure and idempotent", nil, normalize},
	{"incomplete snapshot", nil, incomplete},
	{"reading that is cut short", nil, unanswered},
	{"unreadable device", needs("the device cannot be made unreadable", func(d *Device) bool { return d.Break != nil }), unreadable},
	{"panic of the driver", nil, panics},
}

func needs(why string, has func(d *Device) bool) func(*Harness, *Device) string {
	return func(_ *Harness, d *Device) string {
		if has(d) {
			return ""
		}
		return why
	}
}

func needsMany(h *Harness, _ *Device) string {
	if h.Single {
		return "the device has one object"
	}
	return ""
}

func needsSecret(h *Harness, _ *Device) string {
	if h.secret() == nil {
		return "its objects have no secrets"
	}
	return ""
}

// Run tries a driver, each case on a fresh device, and prints a table.
func Run(t *testing.T, h Harness) {
	t.Helper()
	switch n := len(h.Examples); {
	case h.Single && n != 1:
		t.Fatal("a device of one object has one example")
	case !h.Single && (n < 2 || h.Examples[0].Kind != h.Examples[1].Kind):
		t.Fatal("a harness needs two examples of a kind at least")
	}
	var table strings.Builder
	for _, c := range cases {
		result := "failed"
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			d := h.Start(t)
			if c.needs != nil {
				if why := c.needs(&h, d); why != "" {
					result = "does not apply: " + why
					return
				}
			}
			c.run(newRig(t, &h, d))
			if !t.Failed() {
				result = "passed"
			}
		})
		fmt.Fprintf(&table, "| %-38s | %s |\n", c.name, result)
	}
	t.Logf("conformance:\n%s", table.String())
}

// secret is an example with one.
func (h *Harness) secret() *Example {
	for i := range h.Examples {
		if h.Examples[i].Secret != "" {
			return &h.Examples[i]
		}
	}
	return nil
}
