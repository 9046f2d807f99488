package web_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web"
)

// The UI that is embedded was built from the sources beside it. CI builds it again as well,
// and compares bytes.
func TestEmbeddedUIIsOfTheseSources(t *testing.T) {
	sum := testkit.Value(web.SumSources(os.DirFS("ui")))(t)
	built := strings.TrimSpace(string(testkit.Value(fs.ReadFile(web.Files(), web.SourcesFile))(t)))
	if built != sum {
		t.Errorf("the UI was built from %.12s, and the sources are %.12s: (cd internal/web/ui && npm ci --ignore-scripts) && go run ./internal/web/uibuild", built, sum)
	}
}
