package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/google/go-tpm/tpm2"
)

// keyBlock is the PEM block of a key that a TPM can load: the ASN.1 form that
// other programs for TPMs read too (TSS2 PRIVATE KEY).
const keyBlock = "TSS2 PRIVATE KEY"

// oidLoadable marks a key that TPM2_Load takes.
var oidLoadable = asn1.ObjectIdentifier{2, 23, 133, 10, 1, 3}

// keyFile is the content of that block. Parent is the handle of the hierarchy
// whose primary storage key wraps the private part.
type keyFile struct {
	Type      asn1.ObjectIdentifier
	EmptyAuth bool `asn1:"optional,explicit,tag:0"`
	Parent    int64
	Public    []byte // TPM2B_PUBLIC
	Private   []byte // TPM2B_PRIVATE, encrypted for this TPM
}

// template makes an ECDSA P-256 key that signs SHA-256 digests, and that nobody,
// its owner included, can take out of the TPM that made it. It needs no password
// and no state of the machine: who may use the TPM may sign.
var template = tpm2.TPMTPublic{
	Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{
		FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, NoDA: true, SignEncrypt: true,
	},
	Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{
		Scheme: tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA,
			Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})},
		CurveID: tpm2.TPMECCNistP256,
	}),
}

// Key is a key in a module; it implements crypto.Signer.
type Key struct {
	m       *Module
	file    keyFile
	wrapped tpm2.TPM2BPublic
	name    tpm2.TPM2BName
	public  *ecdsa.PublicKey
	context *tpm2.TPMSContext // of the loaded key, until the TPM starts again
}

// Make makes a key in the module and returns it with its file, for Read.
func (m *Module) Make() (crypto.Signer, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, err := m.primary()
	if err != nil {
		return nil, nil, err
	}
	defer m.flush(parent.Handle)
	made, err := (tpm2.Create{ParentHandle: parent, InPublic: tpm2.New2B(template)}).Execute(m.tpm)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key in the TPM: %w", err)
	}
	k := keyFile{Type: oidLoadable, EmptyAuth: true, Parent: int64(tpm2.TPMRHOwner),
		Public: tpm2.Marshal(made.OutPublic), Private: tpm2.Marshal(made.OutPrivate)}
	der, err := asn1.Marshal(k)
	if err != nil {
		return nil, nil, err
	}
	key, err := m.key(k)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// Read returns the key of a file that this module made. It loads it once, so that
// a file of another module is refused here.
func (m *Module) Read(file []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(file)
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("no PEM block %q found", keyBlock)
	}
	var k keyFile
	rest, err := asn1.Unmarshal(block.Bytes, &k)
	if err != nil {
		return nil, fmt.Errorf("not a key of a TPM: %w", err)
	}
	if len(rest) > 0 || !k.Type.Equal(oidLoadable) || k.Parent != int64(tpm2.TPMRHOwner) || !k.EmptyAuth {
		return nil, errors.New("a key of a TPM in a form that steady does not make")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key, err := m.key(k)
	if err != nil {
		return nil, err
	}
	handle, err := key.load()
	if err != nil {
		return nil, fmt.Errorf("%w; is %s the TPM that made the key?", err, m.name)
	}
	m.flush(handle.Handle)
	return key, nil
}

func (m *Module) key(k keyFile) (*Key, error) {
	wrapped, err := tpm2.Unmarshal[tpm2.TPM2BPublic](k.Public)
	if err != nil {
		return nil, fmt.Errorf("the public part of the key: %w", err)
	}
	public, err := wrapped.Contents()
	if err != nil {
		return nil, fmt.Errorf("the public part of the key: %w", err)
	}
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return nil, fmt.Errorf("the public part of the key: %w", err)
	}
	pub, err := tpm2.Pub(*public)
	if err != nil {
		return nil, fmt.Errorf("the public part of the key: %w", err)
	}
	ec, ok := pub.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T; expected ECDSA P-256", pub)
	}
	return &Key{m: m, file: k, wrapped: *wrapped, name: *name, public: ec}, nil
}

// primary makes the storage key of the owner hierarchy, the same every time.
func (m *Module) primary() (tpm2.NamedHandle, error) {
	r, err := (tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}).Execute(m.tpm)
	if err != nil {
		return tpm2.NamedHandle{}, fmt.Errorf("the storage key of the TPM: %w", err)
	}
	return tpm2.NamedHandle{Handle: r.ObjectHandle, Name: r.Name}, nil
}

// flush forgets a loaded key. Nothing stays in the module between two calls: it
// has room for three, and a process that was killed would never give it back.
func (m *Module) flush(h tpm2.TPMHandle) {
	_, _ = (tpm2.FlushContext{FlushHandle: h}).Execute(m.tpm) // the next load says when the room is gone
}

// load brings the key into the module: from its saved context where that is still
// good, else from its file.
func (k *Key) load() (tpm2.NamedHandle, error) {
	m := k.m
	if k.context != nil {
		if r, err := (tpm2.ContextLoad{Context: *k.context}).Execute(m.tpm); err == nil {
			return tpm2.NamedHandle{Handle: r.LoadedHandle, Name: k.name}, nil
		}
		k.context = nil // the TPM started again
	}
	private, err := tpm2.Unmarshal[tpm2.TPM2BPrivate](k.file.Private)
	if err != nil {
		return tpm2.NamedHandle{}, err
	}
	parent, err := m.primary()
	if err != nil {
		return tpm2.NamedHandle{}, err
	}
	defer m.flush(parent.Handle)
	loaded, err := (tpm2.Load{ParentHandle: parent, InPublic: k.wrapped, InPrivate: *private}).Execute(m.tpm)
	if err != nil {
		return tpm2.NamedHandle{}, fmt.Errorf("load the key into the TPM: %w", err)
	}
	if saved, err := (tpm2.ContextSave{SaveHandle: loaded.ObjectHandle}).Execute(m.tpm); err == nil {
		k.context = &saved.Context
	}
	return tpm2.NamedHandle{Handle: loaded.ObjectHandle, Name: loaded.Name}, nil
}

// Public implements crypto.Signer.
func (k *Key) Public() crypto.PublicKey { return k.public }

// Sign implements crypto.Signer for SHA-256 digests; the signature is ASN.1, as
// certificates have it.
func (k *Key) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != crypto.SHA256 || len(digest) != crypto.SHA256.Size() {
		return nil, fmt.Errorf("a key in a TPM signs SHA-256 digests, not %s", opts.HashFunc())
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	handle, err := k.load()
	if err != nil {
		return nil, err
	}
	defer k.m.flush(handle.Handle)
	r, err := (tpm2.Sign{KeyHandle: handle, Digest: tpm2.TPM2BDigest{Buffer: digest},
		InScheme: tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgECDSA,
			Details: tpm2.NewTPMUSigScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSchemeHash{HashAlg: tpm2.TPMAlgSHA256})},
		Validation: tpm2.TPMTTKHashCheck{Tag: tpm2.TPMSTHashCheck, Hierarchy: tpm2.TPMRHNull},
	}).Execute(k.m.tpm)
	if err != nil {
		return nil, fmt.Errorf("sign in the TPM: %w", err)
	}
	sig, err := r.Signature.Signature.ECDSA()
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct{ R, S *big.Int }{
		new(big.Int).SetBytes(sig.SignatureR.Buffer), new(big.Int).SetBytes(sig.SignatureS.Buffer)})
}
