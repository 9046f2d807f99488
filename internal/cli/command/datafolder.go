package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// StoreFolder is the folder with the log in a server's data folder.
func StoreFolder(data string) (string, error) {
	dir := filepath.Join(data, "store")
	_, err := os.Stat(dir)
	switch {
	case data == "":
		return "", exit.Badf("--data is missing; give with --data DIR the data folder that steady server has")
	case errors.Is(err, fs.ErrPermission):
		return "", exit.With(exit.Refused, fmt.Errorf("the data folder %s is not readable by this user; run this as the user of the server, or as root", data))
	case err != nil:
		return "", exit.Badf("--data %q is no server's data folder; give with --data DIR the one that steady server has", data)
	}
	return dir, nil
}
