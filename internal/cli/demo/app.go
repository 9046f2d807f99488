package demo

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/disk"
)

// App is the application that the fleet of containers runs, one part by its name:
//
//	count DIR          count up in DIR/beat, once a second, from what is there
//	serve DIR SITE     answer over HTTP on port 8080 from DIR and SITE
//	check URL          ask once; an error unless the answer is 200
//
// It ends without an error when ctx does.
func App(ctx context.Context, args []string) error {
	if len(args) == 3 && args[0] == "serve" {
		return serveApp(ctx, args[1], args[2])
	}
	if len(args) == 2 && args[0] == "count" {
		return countApp(ctx, args[1])
	}
	if len(args) == 2 && args[0] == "check" {
		return checkApp(ctx, args[1])
	}
	return fmt.Errorf("expected count DIR, serve DIR SITE or check URL, found %q", args)
}

// countApp writes who began to count, once, and how far the count is.
func countApp(ctx context.Context, dir string) error {
	born := filepath.Join(dir, "born")
	if _, err := os.Stat(born); errors.Is(err, os.ErrNotExist) {
		if err := disk.Replace(born, []byte(strconv.FormatInt(time.Now().UnixNano(), 36)), 0o644); err != nil {
			return err
		}
	}
	beat := filepath.Join(dir, "beat")
	n := 0
	if raw, err := os.ReadFile(beat); err == nil {
		if n, err = strconv.Atoi(string(raw)); err != nil {
			return fmt.Errorf("%s: %w", beat, err)
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n++
		if err := disk.Replace(beat, []byte(strconv.Itoa(n)), 0o644); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// serveApp answers until ctx ends, and then those requests that it has.
func serveApp(ctx context.Context, dir, site string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		status, err := os.ReadFile(filepath.Join(site, "status"))
		if err != nil || strings.TrimSpace(string(status)) != "ok" {
			http.Error(w, fmt.Sprintf("status %q, error %v", status, err), http.StatusInternalServerError)
			return
		}
		if _, err := os.Stat(filepath.Join(dir, "beat")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		var said []any
		for _, path := range []string{filepath.Join(site, "release"), filepath.Join(dir, "born"), filepath.Join(dir, "beat")} {
			raw, err := os.ReadFile(path)
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			said = append(said, strings.TrimSpace(string(raw)))
		}
		fmt.Fprintf(w, answerForm, said...)
	})
	server := &http.Server{Addr: ":" + appPort, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		done <- server.Shutdown(last)
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-done
}

// appPort is where the application answers in its container; answerForm is how.
const (
	appPort    = "8080"
	answerForm = "release %s, counting since %s, beat %s\n"
)

func checkApp(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s: %s", url, r.Status, strings.TrimSpace(string(body)))
	}
	return err
}

// copyProgram copies this program into a folder that becomes the root of an image
// made from scratch, with the libraries that it was linked with: nothing has to
// be pulled. It needs Linux.
func copyProgram(root string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyFile(exe, filepath.Join(root, "steady")); err != nil {
		return err
	}
	file, err := elf.Open(exe)
	if err != nil {
		return fmt.Errorf("%s: %w", exe, err)
	}
	defer file.Close()
	loader, err := loaderOf(file)
	if err != nil || loader == "" {
		return err // without a loader it is static
	}
	if err := copyFile(loader, filepath.Join(root, loader)); err != nil {
		return err
	}
	libraries, err := mapped()
	if err != nil {
		return err
	}
	for _, path := range libraries {
		if err := copyFile(path, filepath.Join(root, path)); err != nil {
			return err
		}
	}
	return nil
}

// loaderOf is the path of the dynamic loader that a program asks for.
func loaderOf(file *elf.File) (string, error) {
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(raw), "\x00"), err
		}
	}
	return "", nil
}

func mapped() ([]string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(maps)) {
		i := strings.IndexByte(line, '/')
		if i < 0 {
			continue
		}
		path := strings.TrimSpace(line[i:])
		if strings.Contains(filepath.Base(path), ".so") && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out, nil
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
