package control_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/need"
)

// Root gives away what it wrote into the folder of another user, who may have put a
// link to a file of root's in its place.
func TestGiveToOwnerFollowsNoLink(t *testing.T) {
	need.Root(t, "only root gives files away")
	const somebody = 12345
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "admin.token")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	if err := control.GiveToOwner(link); err != nil {
		t.Fatal(err)
	}
	if uid := owner(t, victim); uid != 0 {
		t.Errorf("the file behind the link belongs to user %d", uid)
	}
	if uid := owner(t, link); uid != somebody {
		t.Errorf("the file itself belongs to user %d", uid)
	}
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
