package api_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// unplaced are the operations that the web UI has no place for. Where a person would look for
// one it shows the command that does it: keys are never in a browser.
var unplaced = map[string]string{
	"push-release":         "steady release push",
	"foresee-release":      "steady release publish",
	"send-content":         "steady release push",
	"list-missing-content": "steady release push",
	"newest-release":       "steady release publish",
	"push-override":        "steady rollout rollback",
	"push-roots":           "steady keys show",
	"enrolment":            "steady token create",
	"create-token":         "steady operator create",
	"metrics":              "", // for Prometheus
	"health":               "", // for whoever supervises the process
	"readiness":            "",
	"hook-release":         "", // for the place where releases are kept
	"openapi":              "", // what the UI's types are made of
	"stream-events":        "", // for programs; the UI has the stream of topics
	"list-hosts":           "", // page-hosts cuts the same list, and so do the next ones
	"list-nodes":           "",
	"list-objects":         "",
	"list-drift":           "",
	"why-host":             "", // part of show-host
	"list-sources":         "", // part of status

	"list-quotas": "steady session quota list",
	"set-quota":   "steady session quota set",

	"list-kept-volumes":   "steady session bin",
	"discard-kept-volume": "steady session discard",

	"create-login-link": "steady ui",
	"workspace-exec":    "", // for programs: a browser has no request that goes both ways
}

// TestUIHasAPlaceForEveryOperation: what the operator API can do, the web UI does or shows the
// command for.
func TestUIHasAPlaceForEveryOperation(t *testing.T) {
	var ui strings.Builder
	testkit.Must(t, filepath.WalkDir("../web/ui/src", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(path) == "api.ts" {
			return err
		}
		raw, err := os.ReadFile(path)
		ui.Write(raw)
		return err
	}))
	known := map[string]bool{}
	d := describedOf(t)
	for _, r := range d.routes() {
		known[r.ID] = true
		command, is := unplaced[r.ID]
		used := regexp.MustCompile(`(?:call|useAnswer|pathOf)\("` + r.ID + `"|operation(?:=|: )"` + r.ID + `"|"` + r.path + `"`).MatchString(ui.String())
		switch {
		case is && used:
			t.Errorf("%s has a place in the UI, and is listed as having none", r.ID)
		case is && !strings.Contains(ui.String(), command):
			t.Errorf("%s is done by %s, which the UI does not show", r.ID, command)
		case !is && !used:
			t.Errorf("%s (%s %s) has no place in the UI", r.ID, r.method, r.path)
		}
	}
	for id := range unplaced { // order-free: each by itself
		if !known[id] {
			t.Errorf("%s is no operation any more", id)
		}
	}
}
