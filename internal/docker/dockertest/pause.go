package dockertest

import (
	"strings"
	"time"
)

// Pause calls a pause of a container until the engine manages it. Control groups of
// the first version freeze processes that start others by chance only: on a slow
// machine runc gives up after a thousand tries, and leaves the container as it was.
func Pause(pause func() error) error {
	for end := time.Now().Add(timeout); ; {
		err := pause()
		if err == nil || !strings.Contains(err.Error(), "unable to freeze") || time.Now().After(end) {
			return err
		}
	}
}
