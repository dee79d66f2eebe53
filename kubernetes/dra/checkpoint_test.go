package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestClaimsOutliveTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	first, damaged, err := openCheckpoint(path)
	if err != nil || damaged != "" || len(first.claims) != 0 {
		t.Fatalf("found %v, %q, %v", first, damaged, err)
	}
	claims := map[types.UID]Prepared{"c1": {"shop/web", "pod-1", 2 << 30}}
	if err := first.replace(claims); err != nil {
		t.Fatal(err)
	}
	second, damaged, err := openCheckpoint(path)
	if err != nil || damaged != "" || !maps.Equal(second.claims, claims) {
		t.Errorf("found %v, %q, %v; wanted %v", second, damaged, err, claims)
	}
	if mode, _ := os.Stat(path); mode.Mode().Perm() != 0o600 {
		t.Errorf("found mode %o; wanted 600", mode.Mode().Perm())
	}
}

func TestDamagedFileIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	good := &Checkpoint{path: path}
	if err := good.replace(map[types.UID]Prepared{"c1": {"shop/web", "pod-1", 4}}); err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(path)
	for _, content := range []string{
		"", "{}", string(whole[:len(whole)-1]), strings.Replace(string(whole), ":4", ":5", 1),
		strings.Replace(string(whole), `"version":1`, `"version":2`, 1),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		found, damaged, err := openCheckpoint(path)
		if err != nil || len(found.claims) != 0 || !strings.Contains(damaged, ".damaged") {
			t.Errorf("%q: found %v, %q, %v", content, found, damaged, err)
		}
		if kept, _ := os.ReadFile(path + ".damaged"); string(kept) != content {
			t.Errorf("%q: kept %q", content, kept)
		}
	}
}

func TestFullDiskLeavesClaimsAsTheyAre(t *testing.T) {
	checkpoint := &Checkpoint{path: filepath.Join(t.TempDir(), "missing", "checkpoint.json")}
	checkpoint.claims = map[types.UID]Prepared{"c1": {"shop/web", "pod-1", 4}}
	if err := checkpoint.replace(nil); err == nil || len(checkpoint.claims) != 1 {
		t.Errorf("found %v, %v", err, checkpoint.claims)
	}
}
