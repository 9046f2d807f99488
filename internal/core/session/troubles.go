package session

import (
	"bytes"

	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Troubles are the rows by session that a person may be needed for. A session without any needs nobody, which is known
// so without a description of all of it. The zero value has none.
type Troubles struct {
	of map[string]map[engine.Ref]struct{}
}

// Note follows a row as it was written.
func (t *Troubles) Note(row *engine.Row) {
	if phaseLevels[string(row.Phase)] != status.Critical {
		t.Drop(row.Ref)
		return
	}
	name := Of(row.Ref)
	if t.of == nil {
		t.of = map[string]map[engine.Ref]struct{}{}
	}
	if t.of[name] == nil {
		t.of[name] = map[engine.Ref]struct{}{}
	}
	t.of[name][row.Ref] = struct{}{}
}

// Drop forgets a row.
func (t *Troubles) Drop(ref engine.Ref) {
	name := Of(ref)
	if delete(t.of[name], ref); len(t.of[name]) == 0 {
		delete(t.of, name)
	}
}

// Any reports whether a session has one.
func (t *Troubles) Any(name string) bool { return len(t.of[name]) > 0 }

// Alike reports whether a session is described the same with one row or the other.
func Alike(a, b *engine.Row) bool {
	return a.Phase == b.Phase && a.Reason == b.Reason && a.Delete == b.Delete && a.Generation == b.Generation &&
		a.Attempts == b.Attempts && a.Alerts() == b.Alerts() && bytes.Equal(a.Report(), b.Report())
}
