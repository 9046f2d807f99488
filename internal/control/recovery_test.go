package control_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/testkit"
)

// Root gives away what it wrote into the folder of another user, who may have put a
// link to a file of root's in its place.
func TestGiveToOwnerFollowsNoLink(t *testing.T) {
	testkit.Needs(t, testkit.Root)
	const somebody = 12345
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	testkit.Must(t, os.WriteFile(victim, nil, 0o600))
	link := filepath.Join(dir, "admin.token")
	testkit.Must(t, os.Symlink(victim, link))
	testkit.Must(t, os.Chown(dir, somebody, somebody))
	testkit.Must(t, control.GiveToOwner(link))
	if uid := owner(t, victim); uid != 0 {
		t.Errorf("the file behind the link belongs to user %d", uid)
	}
	if uid := owner(t, link); uid != somebody {
		t.Errorf("the file itself belongs to user %d", uid)
	}
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info := testkit.Value(os.Lstat(path))(t)
	return info.Sys().(*syscall.Stat_t).Uid
}
