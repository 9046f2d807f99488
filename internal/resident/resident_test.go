package resident

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUnwritten: only what can be read alone, is of the file, and holds nothing
// that the file does not.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-00c7d000 r-xp 00000000 fe:00 1  /usr/bin/steady-agent
Rss:                7604 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00c7d000-014a7000 r--p 0087d000 fe:00 1  /usr/bin/steady-agent
Anonymous:             0 kB
Swap:                  0 kB
014a7000-01520000 rw-p 010a7000 fe:00 1  /usr/bin/steady-agent
Anonymous:             0 kB
Swap:                  0 kB
01520000-01530000 r--p 010a7000 fe:00 1  /usr/bin/steady-agent
Anonymous:             4 kB
Swap:                  0 kB
01530000-01540000 r--p 010a7000 fe:00 1  /usr/bin/steady-agent
Anonymous:             0 kB
Swap:                  4 kB
01540000-01550000 r--p 010a7000 fe:00 1  /usr/bin/steady-agent
Anonymous:             0 kB
01550000-01560000 r--s 010a7000 fe:00 1  /usr/bin/steady-agent
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 2  /usr/bin/steady-agent (deleted)
Anonymous:             0 kB
Swap:                  0 kB
7fff00000000-7fff00001000 r-xp 00000000 00:00 0  [vdso]
Anonymous:             0 kB
Swap:                  0 kB
`
	for file, want := range map[string][]mapping{
		"/usr/bin/steady-agent":           {{0x400000, 0xc7d000}, {0xc7d000, 0x14a7000}},
		"/usr/bin/steady-agent (deleted)": {{0x7f0000000000, 0x7f0000001000}},
		"/usr/bin/other":                  nil,
	} {
		got, err := unwritten(strings.NewReader(smaps), file)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %x %v, not %x", file, got, err, want)
		}
	}
	for _, bad := range []string{"x-2 r--p 0 0 0 a\n", "1 r--p 0 0 0 a\n", "1-y r--p 0 0 0 a\n"} {
		if got, err := unwritten(strings.NewReader(bad), "a"); err == nil {
			t.Errorf("%q: %x", bad, got)
		}
	}
}

// TestRelease: pages of this program go, and it runs on.
func TestRelease(t *testing.T) {
	before := fileBacked(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	after := fileBacked(t)
	t.Logf("%d kB and then %d kB of files are mapped", before, after)
	if after >= before {
		t.Errorf("nothing was given back: %d kB before and %d kB after", before, after)
	}
}

func fileBacked(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssFile:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssFile")
	return 0
}
