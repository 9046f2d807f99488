package disk

import (
	"errors"
	"io"
	"os"
)

// CopyFile copies a file, with its mode, to a name that is free. The content is
// durable when it returns, the name is not.
func CopyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close())
}
