package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/testkit"
)

// The server says how it is itself: in which term it runs, and when it was last backed up.
func TestServerTellsOfItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.adminSecret()
	ask := func() (s operator.Server) {
		t.Helper()
		_, raw := w.request(secret, "GET", operator.Prefix+"/server", "")
		testkit.Must(t, json.Unmarshal([]byte(raw), &s))
		return s
	}
	first := ask()
	if first.StartedAt == 0 || first.Term == 0 || first.LastBackup != 0 || len(first.Problems) != 0 {
		t.Errorf("a new server is %+v", first)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(w.opts.DataDir, control.BackupMark), nil, 0o600))
	if s := ask(); s.LastBackup == 0 || s.StartedAt != first.StartedAt {
		t.Errorf("after a backup it is %+v", s)
	}
	w.halt()
	w.start()
	if s := ask(); s.Term <= first.Term || s.StartedAt < first.StartedAt {
		t.Errorf("started again it is %+v", s)
	}
}
