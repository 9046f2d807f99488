package fetch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/release"
)

// file is one file of a release in a tree.
type file struct {
	id, name string
	size     int64
}

// list reads what is in a tree, and stops at the first thing that no release has:
// a link, a submodule, a folder or a name of another kind, a size over its cap.
func (r *repository) list(ctx context.Context, tree string) ([]file, error) {
	var files []file
	err := r.piped(ctx, nil, func(out io.Reader) (err error) {
		files, err = readTree(out, r.o.Caps)
		return err
	}, "ls-tree", "-r", "-t", "-l", "-z", "--full-tree", tree)
	return files, err
}

// piped runs git on the cache while read takes what it says, and ends it when read has
// enough. What read returns, which has git's own error in it, is the outcome.
func (r *repository) piped(ctx context.Context, in io.Reader, read func(io.Reader) error, args ...string) error {
	ctx, stop := context.WithCancel(ctx)
	out, w := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() { w.CloseWithError(r.run(ctx, in, w, append([]string{"--git-dir=" + r.repo()}, args...)...)) })
	err := read(out)
	out.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	stop()
	running.Wait()
	return err
}

// maxLine bounds one entry of a tree.
const maxLine = 1 << 10

// readTree reads the output of git ls-tree -r -t -l -z.
func readTree(from io.Reader, caps release.Caps) ([]file, error) {
	in := bufio.NewReaderSize(from, maxLine)
	var files []file
	total := int64(0)
	for {
		line, err := in.ReadSlice(0)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return files, nil
		case errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF):
			return nil, failf(Content, "an entry of the tree has no place in a release")
		case err != nil:
			return nil, unpacked(err)
		}
		f, folder, err := readEntry(string(line[:len(line)-1]))
		if err != nil {
			return nil, err
		}
		if folder {
			continue
		}
		total += f.size
		if files = append(files, f); len(files) > caps.Files {
			return nil, failf(Content, "more than %d files", caps.Files)
		}
		if total > caps.Bytes {
			return nil, failf(Content, "more than %d bytes", caps.Bytes)
		}
	}
}

// readEntry reads "MODE TYPE ID SIZE<tab>NAME".
func readEntry(line string) (f file, folder bool, err error) {
	head, name, ok := strings.Cut(line, "\t")
	part := strings.Fields(head)
	if !ok || len(part) != 4 || !objectPattern().MatchString(part[2]) {
		return f, false, failf(Content, "an entry of the tree cannot be read: %.100q", line)
	}
	switch mode, kind := part[0], part[1]; {
	case mode == "160000":
		return f, false, failf(Content, "%.100q is a submodule, which has no place in a release", name)
	case mode == "120000":
		return f, false, failf(Content, "%.100q is a link, which has no place in a release", name)
	case kind == "tree" && release.IsFolder(name):
		return f, true, nil
	case kind != "blob" || mode != "100644" && mode != "100755" && mode != "100664":
		return f, false, failf(Content, "%.100q has no place in a release", name)
	}
	limit, ok := release.FileCap(name)
	size, err := strconv.ParseInt(part[3], 10, 64)
	if !ok || err != nil || size < 0 {
		return f, false, failf(Content, "%.100q has no place in a release", name)
	}
	if size > limit {
		return f, false, failf(Content, "%s has %d bytes, at most %d are allowed", name, size, limit)
	}
	return file{id: part[2], name: name, size: size}, false, nil
}

// pack streams files as release.Pack would, read from git's object store as they
// are: no filter, attribute or conversion touches them.
func (r *repository) pack(ctx context.Context, files []file) io.ReadCloser {
	ctx, stop := context.WithCancel(ctx)
	out, w := io.Pipe()
	go func() {
		defer stop()
		w.CloseWithError(r.stream(ctx, files, w))
	}()
	return out
}

func (r *repository) stream(ctx context.Context, files []file, w io.Writer) error {
	var ask bytes.Buffer
	for _, f := range files {
		ask.WriteString(f.id + "\n")
	}
	return r.piped(ctx, &ask, func(objects io.Reader) error { return writeFiles(bufio.NewReader(objects), files, w) }, "cat-file", "--batch")
}

func writeFiles(objects *bufio.Reader, files []file, w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		head, err := objects.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if want := fmt.Sprintf("%s blob %d\n", f.id, f.size); head != want {
			return failf(Content, "%s: git has %.100q for it", f.name, head)
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: f.size, Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := io.CopyN(tw, objects, f.size); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if end, err := objects.ReadByte(); err != nil || end != '\n' {
			return failf(Content, "%s: git gave more than its size", f.name)
		}
	}
	return tw.Close()
}
