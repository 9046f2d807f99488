// Package resident keeps the memory of a process at rest small: it gives back what
// only the start, or the last burst of work, had need of.
package resident

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How often pages and heap are given back. Pages that are still of use come back
// when they are touched, which takes well below a millisecond in all; the heap is
// collected for it, which takes several.
const (
	pagesEvery = 10 * time.Second
	heapEvery  = time.Minute
)

// Keep gives back freed heap and unused pages of the program's file until ctx
// ends. Where the system does not tell of mappings, the pages stay.
func Keep(ctx context.Context) {
	pages, heap := time.NewTicker(pagesEvery), time.NewTicker(heapEvery)
	defer pages.Stop()
	defer heap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heap.C:
			debug.FreeOSMemory()
		case <-pages.C:
			_ = Release() // memory is all that it costs
		}
	}
}

// Release unmaps the pages of the program's file that were never written: the
// kernel keeps them in its cache and maps those again that are used.
func Release() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	clean, err := unwritten(bytes.NewReader(raw), exe)
	if err != nil {
		return err
	}
	for _, m := range clean {
		if _, _, no := syscall.Syscall(syscall.SYS_MADVISE, m.begin, m.end-m.begin, syscall.MADV_DONTNEED); no != 0 {
			return fmt.Errorf("give back %x-%x of %s: %w", m.begin, m.end, exe, no)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// unwritten finds the mappings of a file that can only be read, and of which no
// page was written while it still could be: a loader may have, and what it wrote
// would be lost.
func unwritten(smaps io.Reader, file string) ([]mapping, error) {
	var out []mapping
	var at mapping
	var ours bool
	var told int // of the two fields that have to be zero
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 0:
		case !strings.HasSuffix(f[0], ":"):
			var err error
			if at, err = bounds(f[0]); err != nil {
				return nil, err
			}
			told = 0
			ours = len(f) > 5 && strings.Join(f[5:], " ") == file && len(f[1]) == 4 && f[1][0] == 'r' && f[1][1] == '-' && f[1][3] == 'p'
		case ours && len(f) > 1 && (f[0] == "Anonymous:" || f[0] == "Swap:") && f[1] == "0":
			if told++; told == 2 {
				out = append(out, at)
			}
		}
	}
	return out, lines.Err()
}

func bounds(text string) (m mapping, err error) {
	from, to, _ := strings.Cut(text, "-")
	a, err := strconv.ParseUint(from, 16, strconv.IntSize)
	if err != nil {
		return m, fmt.Errorf("a mapping at %q: %w", text, err)
	}
	b, err := strconv.ParseUint(to, 16, strconv.IntSize)
	if err != nil {
		return m, fmt.Errorf("a mapping at %q: %w", text, err)
	}
	return mapping{uintptr(a), uintptr(b)}, nil
}
