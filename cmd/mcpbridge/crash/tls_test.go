package crash

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func address(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func writeCertificate(t testing.TB, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
