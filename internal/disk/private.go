package disk

import (
	"fmt"
	"os"
)

// Private makes a folder that its owner alone may enter, with those above it. One that is there and that others may
// enter is closed to them; it is an error where that is not in this process's power.
func Private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("others may enter %s, whose mode is %s, and it cannot be closed to them: %w; give it to the user that runs this, or chmod it to 0700", dir, info.Mode().Perm(), err)
	}
	return nil
}
