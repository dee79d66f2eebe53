package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// Answering is a daemon that answers each line with the next of these; the lines come back.
func answering(t *testing.T, answers ...string) (Daemon, chan string) {
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	lines := make(chan string, len(answers))
	go func() {
		for _, answer := range answers {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(connection).ReadString('\n')
			lines <- line
			_, _ = connection.Write([]byte(answer))
			connection.Close()
		}
	}()
	return Daemon{socket: path}, lines
}

func TestEmptyListTakesAllClaimsAway(t *testing.T) {
	answer := `{"ok":true,"claims":{"capacity_bytes":7,"floors":{"p":3}}}` + "\n"
	daemon, lines := answering(t, answer, answer)
	found, err := daemon.exchange(context.Background(), map[string]int64{})
	if err != nil || found.Capacity != 7 || found.Floors["p"] != 3 {
		t.Fatalf("found %v, %v", found, err)
	}
	if line := <-lines; line != `{"command":"claims","floors":{}}`+"\n" {
		t.Errorf("sent %q", line)
	}
	if _, err := daemon.exchange(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != `{"command":"claims"}`+"\n" {
		t.Errorf("sent %q", line)
	}
}

func TestRefusalsAndBrokenAnswersDiffer(t *testing.T) {
	daemon, _ := answering(t, `{"ok":false,"error":"nri is off"}`+"\n", "?\n", "{\"ok\":true}\n", "")
	for _, want := range []string{
		"tierwised refuses: nri is off", "not an answer of tierwised", "returns no claims",
		"no answer of tierwised",
	} {
		_, err := daemon.exchange(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("found %v; wanted %q", err, want)
		}
		if errors.Is(err, ErrRefused) != strings.Contains(want, "refuses") {
			t.Errorf("%v: refused %v", err, errors.Is(err, ErrRefused))
		}
	}
}

func TestPatchWritesAndRemovesTheResource(t *testing.T) {
	whole := int64(512)
	for want, amount := range map[string]*int64{`"512"`: &whole, "null": nil} {
		found, err := statusPatch(amount)
		one := `{"tierwise.io/fast-memory":` + want + "}"
		if all := `{"status":{"allocatable":` + one + `,"capacity":` + one + "}}"; err != nil ||
			string(found) != all {
			t.Errorf("found %s, %v; wanted %s", found, err, all)
		}
	}
}
