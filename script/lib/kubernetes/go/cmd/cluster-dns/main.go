// Command cluster-dns answers for the names of services: A of NAME.NAMESPACE.svc.cluster.local, which is the service's address, or
// the addresses of its ready pods if it has none of its own. Any other name does not exist.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/listers/core/v1"
	discovery "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	suffix            = ".svc.cluster.local."
	lifetimeSeconds   = 2
	largestUDPMessage = 1232
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	address := flag.String("listen", "", "address and port of the server")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	names := zone{
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())

	socket, err := net.ListenPacket("udp", *address)
	if err != nil {
		log.Fatal(err)
	}
	buffer := make([]byte, largestUDPMessage)
	for {
		size, peer, err := socket.ReadFrom(buffer)
		if err != nil {
			log.Fatal(err)
		}
		if response, err := names.answer(buffer[:size]); err == nil {
			_, _ = socket.WriteTo(response, peer)
		}
	}
}

type zone struct {
	services core.ServiceLister
	slices   discovery.EndpointSliceLister
}

func (z zone) answer(request []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(request)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	addresses, known := z.lookUp(strings.ToLower(question.Name.String()))
	response := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired},
		Questions: []dnsmessage.Question{question},
	}
	if !known {
		response.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			response.Answers = append(response.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: lifetimeSeconds},
				Body:   &dnsmessage.AResource{A: address.As4()},
			})
		}
	}
	return response.Pack()
}

func (z zone) lookUp(name string) (addresses []netip.Addr, known bool) {
	inside, found := strings.CutSuffix(name, suffix)
	parts := strings.Split(inside, ".")
	if !found || len(parts) != 2 {
		return nil, false
	}
	service, err := z.services.Services(parts[1]).Get(parts[0])
	if err != nil {
		return nil, false
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		return parsed([]string{service.Spec.ClusterIP}), true
	}
	return z.readyPods(service), true
}

func (z zone) readyPods(service *corev1.Service) []netip.Addr {
	chosen := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	slices, err := z.slices.EndpointSlices(service.Namespace).List(chosen)
	if err != nil {
		return nil
	}
	var addresses []netip.Addr
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			if ready || service.Spec.PublishNotReadyAddresses {
				addresses = append(addresses, parsed(endpoint.Addresses)...)
			}
		}
	}
	return addresses
}

func parsed(texts []string) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
