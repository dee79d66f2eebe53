// Kubelet is the side of a kubelet that a driver for dynamic resource allocation talks to, with the
// messages of Kubernetes' own packages and without pods: it finds the driver's registration socket,
// registers the driver, and prepares and unprepares claims.
//
// It reads commands from its standard input, one a line, and answers each with one line of JSON:
//
//	register                    waits for the driver, and registers it
//	prepare NAMESPACE NAME UID
//	unprepare NAMESPACE NAME UID
//
// It ends at the end of its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Answer is what a command prints.
type Answer struct {
	Driver  string   `json:"driver,omitempty"`
	Error   string   `json:"error,omitempty"`
	Devices []string `json:"devices,omitempty"`
}

// The time that a kubelet gives a driver for a pod's claims.
const patience = 45 * time.Second

func main() {
	registry := flag.String("registry", "", "the directory of registration sockets")
	flag.Parse()
	kubelet := &Kubelet{registry: *registry}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := kubelet.command(strings.Fields(lines.Text()))
		if err != nil {
			answer = Answer{Error: err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, "kubelet:", err)
			os.Exit(1)
		}
	}
}

// Kubelet is the kubelet's side.
type Kubelet struct {
	registry string
	driver   dra.DRAPluginClient
}

func (k *Kubelet) command(words []string) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(words) == 1 && words[0] == "register" {
		return k.register(ctx)
	}
	if len(words) != 4 || k.driver == nil {
		return Answer{}, fmt.Errorf("found %q; allowed: register, then prepare and unprepare",
			strings.Join(words, " "))
	}
	claim := &dra.Claim{Namespace: words[1], Name: words[2], Uid: words[3]}
	switch words[0] {
	case "prepare":
		return k.prepare(ctx, claim)
	case "unprepare":
		return k.unprepare(ctx, claim)
	}
	return Answer{}, fmt.Errorf("found %q; allowed: prepare, unprepare", words[0])
}

func (k *Kubelet) prepare(ctx context.Context, claim *dra.Claim) (Answer, error) {
	all := &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claim}}
	reply, err := k.driver.NodePrepareResources(ctx, all)
	if err != nil {
		return Answer{}, err
	}
	found := reply.Claims[claim.Uid]
	answer := Answer{Error: found.GetError()}
	for _, device := range found.GetDevices() {
		answer.Devices = append(answer.Devices, device.PoolName+"/"+device.DeviceName)
	}
	return answer, nil
}

func (k *Kubelet) unprepare(ctx context.Context, claim *dra.Claim) (Answer, error) {
	all := &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claim}}
	reply, err := k.driver.NodeUnprepareResources(ctx, all)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Error: reply.Claims[claim.Uid].GetError()}, nil
}

// Register waits for a socket in the registry, asks what listens there, and accepts it.
func (k *Kubelet) register(ctx context.Context) (Answer, error) {
	var sockets []string
	for len(sockets) == 0 {
		if ctx.Err() != nil {
			return Answer{}, fmt.Errorf("%s: no driver registers within %s", k.registry, patience)
		}
		time.Sleep(50 * time.Millisecond)
		sockets, _ = filepath.Glob(filepath.Join(k.registry, "*.sock"))
	}
	connection, err := dial(sockets[0])
	if err != nil {
		return Answer{}, err
	}
	defer connection.Close()
	client := registration.NewRegistrationClient(connection)
	info, err := client.GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return Answer{}, err
	}
	if info.Type != registration.DRAPlugin || !slices.Contains(info.SupportedVersions,
		dra.DRAPluginService) {
		return Answer{}, fmt.Errorf("found %s with %q; allowed: %s with %s", info.Type,
			info.SupportedVersions, registration.DRAPlugin, dra.DRAPluginService)
	}
	driver, err := dial(info.Endpoint)
	if err != nil {
		return Answer{}, err
	}
	k.driver = dra.NewDRAPluginClient(driver)
	_, err = client.NotifyRegistrationStatus(ctx,
		&registration.RegistrationStatus{PluginRegistered: true})
	return Answer{Driver: info.Name}, err
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}
