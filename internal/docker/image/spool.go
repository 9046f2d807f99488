package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// spool copies a blob into a file without a name and checks it on the way, so
// that the engine is given nothing that was not signed.
func (m *Reconciler) spool(ctx context.Context, b spec.Blob) (_ *os.File, err error) {
	from, err := m.o.Content.Blob(ctx, b.Digest, b.Size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	f, err := os.CreateTemp("", ".blob-*")
	if err != nil {
		return nil, fmt.Errorf("copy of a blob: %w", err)
	}
	if err = os.Remove(f.Name()); err == nil {
		err = m.copyChecked(f, from, b)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *Reconciler) copyChecked(to *os.File, from io.Reader, b spec.Blob) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, b.Size+1))
	if err != nil {
		return fmt.Errorf("copy of a blob: %w", err)
	}
	if have := digest.Digest(digest.Prefix + hex.EncodeToString(sum.Sum(nil))); n != b.Size || have != b.Digest {
		err := fmt.Errorf("the copy of blob %s is damaged: it is fetched again", b.Digest.Short())
		return errors.Join(err, m.o.Content.Damaged(b.Digest))
	}
	_, err = to.Seek(0, io.SeekStart)
	return err
}

// mostText bounds a Dockerfile and the list of an archive, in bytes.
const mostText = 4 << 20

// fromTar reads one file of a tar and goes back to its beginning.
func fromTar(f io.ReadSeeker, name string) ([]byte, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r := tar.NewReader(f)
	want := path.Clean("/" + name)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it has no file %s", strings.TrimPrefix(want, "/"))
		}
		if err != nil {
			return nil, fmt.Errorf("it is no tar: %w", err)
		}
		if path.Clean("/"+h.Name) != want || h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(r, mostText+1))
		if err == nil && len(text) > mostText {
			err = fmt.Errorf("%s has more than %d bytes", name, mostText)
		}
		if err != nil {
			return nil, err
		}
		_, err = f.Seek(0, io.SeekStart)
		return text, err
	}
}

// archiveNames lists the references in an archive of docker save.
func archiveNames(f io.ReadSeeker) ([]string, error) {
	text, err := fromTar(f, "manifest.json")
	if err != nil {
		return nil, fmt.Errorf("the archive is not as docker save writes it: %w", err)
	}
	var list []struct{ RepoTags []string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the archive is not as docker save writes it: manifest.json: %w", err)
	}
	var out []string
	for _, i := range list {
		for _, t := range i.RepoTags {
			out = append(out, familiar(t))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// familiar is a reference in the one spelling that engines show.
func familiar(ref string) string {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	if last := ref[strings.LastIndexByte(ref, '/')+1:]; !strings.ContainsAny(last, ":@") {
		ref += ":latest"
	}
	return ref
}

// repository is a reference without tag and digest.
func repository(ref string) string {
	ref, _, _ = strings.Cut(familiar(ref), "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		ref = ref[:i]
	}
	return ref
}

// inlineName is where a Dockerfile is put that is not in the context.
const inlineName = ".steady.Dockerfile"

// withInline puts a Dockerfile before the files of a context (nil: none).
func withInline(text string, context io.Reader) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: inlineName, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return nil, err
	}
	if context == nil {
		return &buf, w.Close()
	}
	return io.MultiReader(&buf, context), w.Flush()
}
