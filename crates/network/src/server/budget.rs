//! How much memory connections may take together: each has less where there may be many.

use crate::settings::ServerSettings;

/// Bytes that have come over all connections and that nobody has read yet.
const UNREAD: usize = 256 << 20;
/// Of one connection: what HTTP/2 gives everybody, and what keeps a quick and distant client busy.
const LEAST: usize = 64 << 10;
const MOST: usize = 1 << 20;
/// Most bytes of a chunk that is sent: each download has one or two on their way out of memory.
const SENT: usize = 64 << 10;

/// Bytes of one transfer that may be on their way unread.
pub(super) fn window(settings: &ServerSettings) -> usize {
    (UNREAD / settings.max_clients.max(1)).clamp(LEAST, MOST)
}

/// Most bytes of a chunk that comes: a chunk is put together before it is read.
pub(super) fn received_chunk(settings: &ServerSettings) -> usize {
    settings.chunk.min(window(settings) / 2)
}

/// Most bytes of a chunk that is sent.
pub(super) fn sent_chunk(settings: &ServerSettings) -> usize {
    settings.chunk.min(SENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_methods::Zoo;

    fn settings(max_clients: usize) -> ServerSettings {
        let text = "data.clients = 2\n[[method]]\nname = \"fedavg\"".parse().unwrap();
        let (_, settings) = ServerSettings::parse(&text, &Zoo::standard()).unwrap();
        ServerSettings { max_clients, ..settings }
    }

    #[test]
    fn many_connections_have_less_each_and_no_more_together() {
        for (connections, each, chunk) in [
            (1, 1 << 20, 256 << 10),
            (256, 1 << 20, 256 << 10),
            (2_048, 128 << 10, 64 << 10),
            (1_000_000, 64 << 10, 32 << 10),
        ] {
            let settings = settings(connections);
            assert_eq!((window(&settings), received_chunk(&settings)), (each, chunk));
            assert!(sent_chunk(&settings) <= SENT);
        }
        let small = ServerSettings { chunk: 1_024, ..settings(2) };
        assert_eq!((received_chunk(&small), sent_chunk(&small)), (1_024, 1_024));
    }
}
