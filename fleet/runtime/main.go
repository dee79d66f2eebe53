// Runtime is the NRI side of a container runtime without containers: containerd's own package
// (github.com/containerd/nri/pkg/adaptation) reports pods that start and end, in the order and with
// the locks of containerd's CRI service, and the time of each call is kept.
//
// It reads commands from its standard input, one a line, and answers each with one line of JSON:
//
//	plugins        the number of plugins that were synchronized since the start
//	churn N        starts N pods, and ends the oldest while more than -live run
//	start NS NAME UID  starts a pod of this namespace, name and unique id
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// Answer is what a command prints.
type Answer struct {
	Plugins int64   `json:"plugins"`
	Started int     `json:"started"`
	Failed  int     `json:"failed"`
	Running int     `json:"running"`
	Delay   *Delays `json:"delay,omitempty"`
}

// Delays are those of the calls that the start of one container waits for, in milliseconds.
type Delays struct {
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
	Slowest float64 `json:"slowest_ms"`
}

// Runtime is the runtime's side.
type Runtime struct {
	nri      *adaptation.Adaptation
	plugins  atomic.Int64
	pause    time.Duration
	live     int
	annotate int
	group    string
	lock     sync.Mutex
	pods     []*api.PodSandbox
	boxes    map[string]*api.Container
	number   int
}

func main() {
	socket := flag.String("socket", "", "the socket on which plugins connect")
	live := flag.Int("live", 110, "the most pods that run at a time")
	pause := flag.Duration("pause", 0, "the pause between two pods")
	annotate := flag.Int("annotate", 4, "one pod of so many has a floor")
	group := flag.String("group", "", "the control group of every container")
	flag.Parse()
	runtime := &Runtime{
		pause: *pause, live: *live, annotate: *annotate, group: *group,
		boxes: map[string]*api.Container{},
	}
	if err := runtime.serve(*socket); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func (r *Runtime) serve(socket string) error {
	// Without these the package looks for plugins of the machine and starts them.
	none := filepath.Join(filepath.Dir(socket), "no-plugins")
	nri, err := adaptation.New("containerd", "test", r.synchronize, r.update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none),
		adaptation.WithPluginConfigPath(none))
	if err != nil {
		return err
	}
	r.nri = nri
	// The first synchronization is that of installed plugins, of which there are none.
	r.plugins.Store(-1)
	if err := nri.Start(); err != nil {
		return err
	}
	defer nri.Stop()
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := r.command(strings.Fields(lines.Text()))
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) command(words []string) (Answer, error) {
	count := 0
	switch {
	case len(words) == 1 && words[0] == "plugins":
		return r.answer(), nil
	case len(words) == 2 && words[0] == "churn":
		if _, err := fmt.Sscan(words[1], &count); err != nil || count < 1 {
			return Answer{}, fmt.Errorf("churn: found %q; allowed: a whole number from 1", words[1])
		}
		return r.churn(count), nil
	case len(words) == 4 && words[0] == "start":
		pod, box := r.next()
		pod.Namespace, pod.Name, pod.Uid, pod.Annotations = words[1], words[2], words[3], nil
		if _, err := r.start(pod, box); err != nil {
			return Answer{}, err
		}
		answer := r.answer()
		answer.Started = 1
		return answer, nil
	}
	return Answer{}, fmt.Errorf("found %q; allowed: plugins, churn N, start NS NAME UID",
		strings.Join(words, " "))
}

func (r *Runtime) answer() Answer {
	r.lock.Lock()
	defer r.lock.Unlock()
	return Answer{Plugins: r.plugins.Load(), Running: len(r.pods)}
}

// Synchronize tells a new plugin what runs.
func (r *Runtime) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	r.lock.Lock()
	pods := slices.Clone(r.pods)
	boxes := make([]*api.Container, 0, len(pods))
	for _, pod := range pods {
		boxes = append(boxes, r.boxes[pod.Id])
	}
	r.lock.Unlock()
	if _, err := tell(ctx, pods, boxes); err != nil {
		return err
	}
	r.plugins.Add(1)
	return nil
}

// Update refuses what no test's plugin asks for.
func (r *Runtime) update(_ context.Context, all []*api.ContainerUpdate) ([]*api.ContainerUpdate,
	error) {
	return all, fmt.Errorf("this runtime has no container to update")
}

func (r *Runtime) churn(count int) Answer {
	took := make([]time.Duration, 0, count)
	failed := 0
	for range count {
		delay, err := r.start(r.next())
		took = append(took, delay)
		if err != nil {
			fmt.Fprintln(os.Stderr, "runtime:", err)
			failed++
		}
		if err := r.endOldest(); err != nil {
			fmt.Fprintln(os.Stderr, "runtime:", err)
			failed++
		}
		time.Sleep(r.pause)
	}
	slices.Sort(took)
	at := func(part float64) float64 {
		index := min(int(part*float64(len(took))), len(took)-1)
		return took[index].Seconds() * 1e3
	}
	answer := r.answer()
	answer.Started, answer.Failed = count, failed
	answer.Delay = &Delays{Median: at(0.5), P99: at(0.99), Slowest: at(1)}
	return answer
}

// Start reports a pod and its container, as RunPodSandbox, CreateContainer and StartContainer of
// the CRI service do, and returns the time that these calls took.
func (r *Runtime) start(pod *api.PodSandbox, box *api.Container) (time.Duration, error) {
	ctx := context.Background()
	before := time.Now()
	// The CRI service holds it in each of its requests, so that a new plugin misses no event.
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	steps := []func() error{
		func() error {
			return r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod})
		},
		func() error {
			_, err := r.nri.CreateContainer(ctx,
				&api.CreateContainerRequest{Pod: pod, Container: box})
			return err
		},
		func() error {
			return r.nri.PostCreateContainer(ctx,
				&api.PostCreateContainerRequest{Pod: pod, Container: box})
		},
		func() error {
			return r.nri.StartContainer(ctx,
				&api.StartContainerRequest{Pod: pod, Container: box})
		},
		func() error {
			box.State = api.ContainerState_CONTAINER_RUNNING
			r.lock.Lock()
			r.pods = append(r.pods, pod)
			r.boxes[pod.Id] = box
			r.lock.Unlock()
			return r.nri.PostStartContainer(ctx,
				&api.PostStartContainerRequest{Pod: pod, Container: box})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return time.Since(before), err
		}
	}
	return time.Since(before), nil
}

// Next makes a pod with one container.
func (r *Runtime) next() (*api.PodSandbox, *api.Container) {
	r.number++
	id := fmt.Sprintf("%064x", r.number)
	annotations := map[string]string{"kubernetes.io/config.source": "api"}
	if r.number%r.annotate == 0 {
		annotations["tierwise.io/floor"] = "16Mi"
	}
	pod := &api.PodSandbox{
		Id: id, Name: fmt.Sprintf("web-%d", r.number), Uid: fmt.Sprintf("uid-%d", r.number),
		Namespace: "shop", Annotations: annotations,
		Linux: &api.LinuxPodSandbox{Namespaces: []*api.LinuxNamespace{{Type: "network"}}},
	}
	box := &api.Container{
		Id: "c" + id[1:], PodSandboxId: id, Name: "main",
		State: api.ContainerState_CONTAINER_CREATED,
		Linux: &api.LinuxContainer{CgroupsPath: r.group},
	}
	return pod, box
}

// EndOldest ends pods until at most r.live run.
func (r *Runtime) endOldest() error {
	ctx := context.Background()
	for {
		r.lock.Lock()
		if len(r.pods) <= r.live {
			r.lock.Unlock()
			return nil
		}
		pod := r.pods[0]
		box := r.boxes[pod.Id]
		r.pods = r.pods[1:]
		delete(r.boxes, pod.Id)
		r.lock.Unlock()
		if err := r.end(ctx, pod, box); err != nil {
			return err
		}
	}
}

func (r *Runtime) end(ctx context.Context, pod *api.PodSandbox, box *api.Container) error {
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	box.State = api.ContainerState_CONTAINER_STOPPED
	if _, err := r.nri.StopContainer(ctx,
		&api.StopContainerRequest{Pod: pod, Container: box}); err != nil {
		return err
	}
	if err := r.nri.RemoveContainer(ctx,
		&api.RemoveContainerRequest{Pod: pod, Container: box}); err != nil {
		return err
	}
	if err := r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod}); err != nil {
		return err
	}
	return r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod})
}
