package keyring_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/testkit"
)

func open(t testing.TB, name string) *keyring.Module {
	t.Helper()
	m := testkit.Value(keyring.OpenTPM(name))(t)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func signs(t testing.TB, key crypto.Signer, text string) {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	sig, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		t.Error(err)
		return
	}
	if !ecdsa.VerifyASN1(key.Public().(*ecdsa.PublicKey), sum[:], sig) {
		t.Errorf("the signature over %q is not valid", text)
	}
}

// A key signs from its file in the module that made it, also after the module
// lost its power, and in no other.
func TestKeyStaysInItsModule(t *testing.T) {
	name, stop, start := testkit.TPM(t)
	m := open(t, name)
	made, file, err := m.Make()
	testkit.Must(t, err)
	signs(t, made, "made")
	read, err := m.Read(file)
	testkit.Must(t, err)
	if !read.Public().(*ecdsa.PublicKey).Equal(made.Public()) {
		t.Error("another key came back")
	}
	for _, text := range []string{"one", "two", "three", "four", "five"} { // more than a module has room for
		signs(t, read, text)
	}
	stop()
	start()
	signs(t, read, "after a power cut")
	again, err := open(t, name).Read(file)
	testkit.Must(t, err)
	signs(t, again, "by another process")

	if _, err := made.Sign(nil, []byte("short"), crypto.SHA256); err == nil {
		t.Error("what is no digest was signed")
	}
	if _, err := made.Sign(nil, make([]byte, 64), crypto.SHA512); err == nil {
		t.Error("a digest of another hash was signed")
	}
	other, _, _ := testkit.TPM(t)
	if _, err := open(t, other).Read(file); err == nil || !strings.Contains(err.Error(), "is "+other+" the TPM that made the key?") {
		t.Errorf("another module took the key: %v", err)
	}
	for i := range 16 { // no damaged file is taken for a key
		bad := bytes.Clone(file)
		bad[len(bad)*i/16] ^= 0x20
		if k, err := m.Read(bad); err == nil && !k.Public().(*ecdsa.PublicKey).Equal(made.Public()) {
			t.Errorf("a file with a changed byte %d is another key", len(bad)*i/16)
		}
	}
}

// Many sign at a time with one module, as enrolments do.
func TestKeyIsSharedByMany(t *testing.T) {
	name, _, _ := testkit.TPM(t)
	key, _, err := open(t, name).Make()
	testkit.Must(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { signs(t, key, "the same") })
	}
	wg.Wait()
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	for name, want := range map[string]string{
		"/dev/tpmrm0":             "expected tpm:/dev/tpmrm0",
		"tpm:":                    "expected tpm:/dev/tpmrm0",
		"tpm:/dev/null/nothing":   "is there one, and may this user open it",
		"tpm:unix:/nowhere/there": "does not answer",
	} {
		if _, err := keyring.OpenTPM(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	name, _, _ := testkit.TPM(b)
	key, _, err := open(b, name).Make()
	testkit.Must(b, err)
	for b.Loop() {
		signs(b, key, "a certificate")
	}
}
