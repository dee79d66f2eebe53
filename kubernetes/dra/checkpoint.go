package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// The only form of the file so far.
const checkpointVersion = 1

// Checkpoint is the file with the claims that are prepared. The kubelet does not prepare them again
// after a restart of the driver, and names them by their ids alone when their pods have ended.
type Checkpoint struct {
	path   string
	claims map[types.UID]Prepared
}

// Stored is the content of the file.
type stored struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"`
	Claims   json.RawMessage `json:"claims"`
}

// OpenCheckpoint reads the file. One that is damaged is set aside, and its name returned: the
// driver must be able to serve new pods.
func openCheckpoint(path string) (*Checkpoint, string, error) {
	checkpoint := &Checkpoint{path: path, claims: map[types.UID]Prepared{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	claims, err := decode(content)
	if err == nil {
		checkpoint.claims = claims
		return checkpoint, "", nil
	}
	aside := path + ".damaged"
	if renamed := os.Rename(path, aside); renamed != nil {
		return nil, "", renamed
	}
	return checkpoint, fmt.Sprintf("%s: %v; it is kept as %s", path, err, aside), nil
}

func decode(content []byte) (map[types.UID]Prepared, error) {
	var file stored
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	if file.Version != checkpointVersion {
		return nil, fmt.Errorf("found version %d; allowed: %d", file.Version, checkpointVersion)
	}
	if checksum(file.Claims) != file.Checksum {
		return nil, errors.New("its checksum is not that of its claims")
	}
	claims := map[types.UID]Prepared{}
	if err := json.Unmarshal(file.Claims, &claims); err != nil {
		return nil, err
	}
	return claims, nil
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Replace writes these claims beside the file, renames it, and only then takes them as those that
// are prepared.
func (c *Checkpoint) replace(claims map[types.UID]Prepared) error {
	inner, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	content, err := json.Marshal(stored{checkpointVersion, checksum(inner), inner})
	if err != nil {
		return err
	}
	beside := c.path + ".new"
	if err := writeAndSync(beside, content); err != nil {
		return err
	}
	if err := os.Rename(beside, c.path); err != nil {
		return err
	}
	c.claims = claims
	return syncDirectory(filepath.Dir(c.path))
}

func writeAndSync(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// SyncDirectory makes a rename last through a power failure.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
