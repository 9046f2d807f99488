package lint

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/testkit"
)

// architectures are those that released programs are for. TestReleasedProgramsAreStatic builds them all.
var architectures = []string{"amd64", "arm64", "arm", "386", "riscv64"}

// TestEveryArchitectureCompiles type-checks the programs as the compiler does for each architecture: sizes of
// the system's own types and of int differ. Building them all takes minutes, this takes seconds. Of dependencies only
// what they declare is looked at.
func TestEveryArchitectureCompiles(t *testing.T) {
	root := testkit.Value(Root())(t)
	for _, arch := range architectures {
		if arch == runtime.GOARCH { // all other tests are compiled for it
			continue
		}
		t.Run(arch, func(t *testing.T) {
			c := &compiled{arch: arch, set: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}, sizes: types.SizesFor("gc", arch)}
			for _, err := range testkit.Value(c.all(root))(t) {
				t.Errorf("GOARCH=%s: %v", arch, err)
			}
			planted := filepath.Join(t.TempDir(), "planted.go")
			testkit.Must(t, os.WriteFile(planted, []byte(overflows), 0o644))
			c.errs = nil
			testkit.Must(t, c.check(&target{ImportPath: Module + "/planted", Dir: filepath.Dir(planted), GoFiles: []string{"planted.go"}, Module: &struct{ Path string }{Module}}))
			if c.sizes.Sizeof(types.Typ[types.Int]) == 4 && len(c.errs) != 2 {
				t.Errorf("of two planted faults %v were found", c.errs)
			}
			if c.own < 50 {
				t.Errorf("only %d packages of this module were looked at", c.own)
			}
		})
	}
}

// overflows has two lines that no compiler for 32 bits takes.
const overflows = `package planted

import "syscall"

func free(st syscall.Statfs_t) int64 { return int64(st.Bavail) * st.Bsize }

func most() int { return 1 << 31 }
`

// TestReleasedProgramsAreStatic builds both programs for every architecture, as releases are built: no loader of the
// distribution is asked for, which NixOS, Alpine and images without one lack.
func TestReleasedProgramsAreStatic(t *testing.T) {
	testkit.Only(t, os.Getenv("STEADY_CROSS_BUILDS") != "", "takes minutes: STEADY_CROSS_BUILDS=1, as .ci/nightly does")
	root, dir := testkit.Value(Root())(t), t.TempDir()
	for _, arch := range architectures {
		for _, program := range []string{"steady", "steady-agent"} {
			to := filepath.Join(dir, program+"-"+arch)
			cmd := exec.Command("go", "build", "-o", to, "./cmd/"+program)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOARCH="+arch, "GOARM=7")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s for %s: %v\n%s", program, arch, err, out)
				continue
			}
			f := testkit.Value(elf.Open(to))(t)
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("%s for %s is not static: it has %v", program, arch, p.Type)
				}
			}
			t.Log(program, arch, f.Machine)
			testkit.Must(t, errors.Join(f.Close(), os.Remove(to)))
		}
	}
}

// compiled type-checks packages for one architecture.
type compiled struct {
	arch  string
	set   *token.FileSet
	sizes types.Sizes
	done  map[string]*types.Package
	own   int
	errs  []error
}

// target is what go list says of a package for an architecture.
type target struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Path string }
	Error           *struct{ Err string }
}

func (c *compiled) all(root string) ([]error, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./cmd/...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOARCH="+c.arch, "GOARM=7", "CGO_ENABLED=0")
	raw, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, e.Stderr)
		}
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(raw))); ; {
		var p target
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return c.errs, nil
		} else if err != nil {
			return nil, err
		}
		if p.Error != nil {
			return nil, errors.New(p.Error.Err)
		}
		if err := c.check(&p); err != nil {
			return nil, err
		}
	}
}

// check comes to a package after what it imports.
func (c *compiled) check(p *target) error {
	if p.ImportPath == "unsafe" {
		return nil
	}
	ours := p.Module != nil && p.Module.Path == Module
	files := make([]*ast.File, len(p.GoFiles))
	var group errgroup.Group
	for i, name := range p.GoFiles {
		group.Go(func() (err error) {
			files[i], err = parsed(c.set, filepath.Join(p.Dir, name), ours)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	conf := types.Config{
		Sizes: c.sizes, IgnoreFuncBodies: !ours,
		Error: func(err error) {
			if ours {
				c.errs = append(c.errs, err)
			}
		},
		Importer: imports(func(path string) (*types.Package, error) {
			if to, mapped := p.ImportMap[path]; mapped {
				path = to
			}
			if found := c.done[path]; found != nil {
				return found, nil
			}
			return nil, fmt.Errorf("%s was not listed before", path)
		}),
	}
	if ours {
		c.own++
	}
	c.done[p.ImportPath], _ = conf.Check(p.ImportPath, c.set, files, nil) // its errors are those that Error was called with
	return nil
}

// imports is a function as a types.Importer.
type imports func(path string) (*types.Package, error)

// Import implements it.
func (f imports) Import(path string) (*types.Package, error) { return f(path) }

// parsed reads a file.
func parsed(set *token.FileSet, path string, whole bool) (*ast.File, error) {
	f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil || whole {
		return f, err
	}
	for _, d := range f.Decls {
		if fn, is := d.(*ast.FuncDecl); is {
			fn.Body = nil
		}
	}
	return f, nil
}
