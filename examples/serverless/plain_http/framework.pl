#!/usr/bin/perl
# A framework without any library of ours: plain HTTP over the unix socket, with nothing but perl's own modules.
#
#   GET  /healthz   200 when it can take calls
#   POST /invoke    a JSON request; the answer is JSON {"statusCode", "contentType", "headers", "body", "error"}
#
# This one counts the words of the payload's "text". One process a connection, so calls run at the same time.
use strict;
use warnings;
use IO::Socket::UNIX;
use JSON::PP;

my $path = $ENV{GPU_RUNTIME_FRAMEWORK_SOCKET} // "/tmp/serverless-framework/framework.sock";
unlink $path;
my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 128) or die "cannot listen on $path: $!\n";
chmod 0666, $path;    # the worker is another user

$SIG{CHLD} = "IGNORE";
while (1) {
    my $client = $listener->accept or next;
    if (fork == 0) { serve($client); exit 0 }
    close $client;
}

sub serve {
    my ($client) = @_;
    my ($method) = split / /, <$client> // return;
    my $length = 0;
    while (defined(my $line = <$client>)) {
        last if $line =~ /^\r?\n$/;
        $length = $1 if $line =~ /^Content-Length:\s*(\d+)/i;
    }
    return answer($client, 200, '{"ok":true}') if $method eq "GET";

    my $body = "";
    while (length $body < $length) {
        read $client, $body, $length - length $body, length $body or return;
    }
    my $payload = decode_json($body)->{payload};
    my $text = ref $payload eq "HASH" ? $payload->{text} : undef;
    return answer($client, 400, encode_json({statusCode => 400, error => "text is missing"})) unless defined $text;
    my @words = split " ", $text;
    answer($client, 200, encode_json({body => {words => scalar @words}}));
}

sub answer {
    my ($client, $status, $body) = @_;
    my $head = "HTTP/1.1 $status OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    print $client $head, "Content-Length: ", length $body, "\r\n\r\n", $body;
}
