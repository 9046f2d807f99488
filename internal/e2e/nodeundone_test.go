package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// undoing is a device whose program, when it is to read its file, makes another one of it: it puts
// back what it had, or has a value of its own.
type undoing struct{ dir, path string }

func newUndoing(t *testing.T, objects string) *undoing {
	u := &undoing{dir: t.TempDir()}
	u.path = filepath.Join(u.dir, "flows.json")
	testkit.Files(t, u.dir, map[string]string{"flows.json": objects, "kept": objects, "mode": "",
		"reload": "#!/bin/sh\ncd " + u.dir + "\ncase \"$(cat mode)\" in\nundo) cp kept next && mv next flows.json ;;\nother) sed 's/\"new\"/\"third\"/' flows.json >next && mv next flows.json ;;\n*) cp flows.json kept ;;\nesac\n"})
	return u
}

func (u *undoing) mode(t *testing.T, mode string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(u.dir, "mode"), []byte(mode), 0o600))
}

// value is that of a field of an object of the device, "none" where there is no such object.
func (u *undoing) value(t *testing.T, id string) string {
	t.Helper()
	all := map[string]map[string]any{}
	testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile(u.path))(t), &all))
	if all[id] == nil {
		return "none"
	}
	v, _ := all[id]["v"].(string)
	return v
}

// failed waits until a push failed, and returns why as operators are shown it.
func (p *plant) failed(name string) (reason string) {
	p.t.Helper()
	testkit.Eventually(p.t, name+" failed", func() bool {
		o := p.object(nodeconfig.Flow, name)
		if o == nil || o.Status != drift.Failed {
			return false
		}
		reason = o.Summary.Reason
		return true
	})
	return reason
}

// acknowledged counts the pushes of an object that the log says succeeded.
func (p *plant) acknowledged(name string) (count int) {
	for _, e := range p.happened() {
		if ev, is := testkit.Value(event.DecodeBody(e.Type, e.Body))(p.t).(event.PushSucceeded); is && ev.Flow == name {
			count++
		}
	}
	return count
}

// TestUndoneIsNotPushed: a device that accepts a change and has afterwards what it had before, or
// something else, has a push that failed, with both values, and never one that succeeded: for an
// edit, a creation and a deletion. When it keeps what it is given, it is pushed.
func TestUndoneIsNotPushed(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	u := newUndoing(t, "{}")
	p.node("gw", "file", "path="+u.path, "reload="+filepath.Join(u.dir, "reload")).start()
	for _, name := range []string{"cam", "gone", "third"} {
		p.set(nodeconfig.Flow, name, "gw", `{"v":"old","n":null,"f":1.0}`)
		p.pushed(nodeconfig.Flow, name)
	}
	u.mode(t, "undo")
	p.set(nodeconfig.Flow, "cam", "gw", `{"v":"new","n":null,"f":1.0}`)
	if why := p.failed("cam"); !strings.Contains(why, "has what it had before") || !strings.Contains(why, "v is old instead of new") || u.value(t, "cam") != "old" {
		t.Errorf("an edit that was undone says %q, and the device has %s", why, u.value(t, "cam"))
	}
	p.set(nodeconfig.Flow, "made", "gw", `{"v":"new"}`)
	if why := p.failed("made"); !strings.Contains(why, "does not have the object") || u.value(t, "made") != "none" {
		t.Errorf("a creation that was undone says %q", why)
	}
	testkit.Must(t, p.client.RemoveObject(context.Background(), nodeconfig.Flow, "gone", "trial"))
	if why := p.failed("gone"); !strings.Contains(why, "has what it had before") || u.value(t, "gone") != "old" {
		t.Errorf("a deletion that was undone says %q", why)
	}
	u.mode(t, "other")
	p.set(nodeconfig.Flow, "third", "gw", `{"v":"new","n":null,"f":1.0}`)
	if why := p.failed("third"); !strings.Contains(why, "v is third instead of new") {
		t.Errorf("another value says %q", why)
	}
	e := p.episode("gw", "third", drift.Mismatched)
	shown := false
	for _, f := range e.Table {
		shown = shown || f.Field == "v" && text(f.Acknowledged) == "old" && text(f.Desired) == "new" && text(f.Actual) == "third"
	}
	if !shown || !e.Conflict {
		t.Errorf("the conflict is %+v", e)
	}
	for name, want := range map[string]int{"cam": 1, "made": 0, "gone": 1, "third": 1} {
		if got := p.acknowledged(name); got != want {
			t.Errorf("%s was acknowledged %d times, and landed %d times", name, got, want)
		}
	}
	u.mode(t, "")
	p.resolve(e, drift.ActionRepush)
	p.set(nodeconfig.Flow, "cam", "gw", `{"v":"newer"}`)
	p.set(nodeconfig.Flow, "made", "gw", `{"v":"newer"}`)
	for _, name := range []string{"cam", "made", "third"} {
		p.pushed(nodeconfig.Flow, name)
	}
	testkit.Eventually(t, "it is deleted", func() bool { return p.object(nodeconfig.Flow, "gone") == nil })
	if got := []string{u.value(t, "cam"), u.value(t, "made"), u.value(t, "third"), u.value(t, "gone")}; strings.Join(got, " ") != "newer newer new none" {
		t.Errorf("in the end the device has %v", got)
	}
	p.settled("gw")
	p.whole()
}
