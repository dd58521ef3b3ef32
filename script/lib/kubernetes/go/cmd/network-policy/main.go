// Command network-policy makes the node obey NetworkPolicy objects: it turns them into one nftables table, which it replaces
// whenever a policy, a pod or a namespace changes. A node that forwards all traffic of its pods is what it needs.
package main

import (
	"bytes"
	"context"
	"flag"
	"log"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const gather = 50 * time.Millisecond

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	network := flag.String("pods", "", "network of the pods")
	nameServer := flag.String("name-server", "", "address of the cluster's DNS server, which is no pod")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, now any) { notify(now) }, DeleteFunc: notify}
	policies, pods, namespaces := factory.Networking().V1().NetworkPolicies(), factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	for _, informer := range []cache.SharedIndexInformer{policies.Informer(), pods.Informer(), namespaces.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			log.Fatal(err)
		}
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())

	applied := ""
	for range changed {
		time.Sleep(gather)
		state := view{dns: dnsPod(*nameServer), network: *network}
		state.policies, _ = policies.Lister().List(labels.Everything())
		state.pods, _ = pods.Lister().List(labels.Everything())
		state.namespaces, _ = namespaces.Lister().List(labels.Everything())
		if rules := state.table(); rules != applied {
			apply(rules)
			applied = rules
		}
	}
}

// dnsPod stands for the DNS server, so that policies which allow it by its usual labels find it.
func dnsPod(address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Status:     corev1.PodStatus{PodIP: address},
	}
}

func apply(rules string) {
	command := exec.Command("nft", "--file", "-")
	command.Stdin = strings.NewReader(rules)
	if output, err := command.CombinedOutput(); err != nil {
		log.Fatalf("nft refused the rules: %v %s\n%s", err, bytes.TrimSpace(output), rules)
	}
	log.Printf("applied %d lines", strings.Count(rules, "\n"))
}
