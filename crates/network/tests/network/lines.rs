//! Lines that break.

use crate::house::{House, never, within};
use formant_network::client::join;
use formant_numerics::{Rng, Stream};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A way to a server on which every connection is cut after some thousand bytes.
struct Breaking {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
}

impl Breaking {
    /// Lets `least` bytes and up to as many again through in each direction.
    async fn to(server: SocketAddr, least: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, cuts) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let count = cuts.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let count = count.clone();
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(server).await else { return };
                    let drawn = xxhash_rust::xxh3::xxh3_64(&count.load(Relaxed).to_le_bytes());
                    let budget = least + drawn % least;
                    let (near_read, near_write) = near.into_split();
                    let (far_read, far_write) = far.into_split();
                    // Whichever ends first takes the other with it.
                    let cut = tokio::select! {
                        cut = carry(near_read, far_write, budget) => cut,
                        cut = carry(far_read, near_write, budget) => cut,
                    };
                    count.fetch_add(u64::from(cut), Relaxed);
                });
            }
        });
        Self { address, cuts }
    }
}

/// Carries bytes until the budget is spent (true) or a side ends (false).
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut budget: u64,
) -> bool {
    let mut buffer = [0; 1_024];
    while budget > 0 {
        let most = buffer.len().min(budget as usize);
        let Ok(read @ 1..) = from.read(&mut buffer[..most]).await else { return false };
        if to.write_all(&buffer[..read]).await.is_err() {
            return false;
        }
        budget -= read as u64;
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_go_on_where_the_line_broke_and_the_bits_are_the_same() {
    // A model has 51 kB and a welcome 3: no connection lives long enough for both.
    let house = House::new(3, "scd", "chunk = \"1KiB\"\nlinger = \"20s\"");
    let server = house.serve().await;
    let line = Breaking::to(server.address(), 20_000).await;
    let address = line.address.to_string();
    let clients: Vec<_> =
        (0..3).map(|client| tokio::spawn(join(house.options(&address, client), never()))).collect();
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (3, None));
    for client in clients {
        within(client).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(house.fingerprint(), house.simulated());
    // Three clients, three rounds there and back, and the last model: 21 transfers, of which each needs
    // more than one connection.
    let cuts = line.cuts.load(Relaxed);
    assert!(cuts >= 21, "{cuts} cuts");
}

/// Everything at once: lines that break, a server that is restarted, clients that are.
async fn accidents(mut house: House, seed: u64) {
    house.table.insert("rounds".into(), 5.into());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    house.set("server", "listen", port.to_string());
    let (house, line) = (Arc::new(house), Breaking::to(port, 30_000).await);
    let (address, mut rng) = (line.address.to_string(), Rng::new(seed, Stream::Test, 0, 0));
    let clients: Vec<_> = (0..house.clients)
        .map(|client| {
            let mut rng = Rng::new(seed, Stream::Test, 1, client as u64);
            let (house, address) = (house.clone(), address.clone());
            tokio::spawn(async move {
                loop {
                    let life = Duration::from_millis(100 + rng.next_u64() % 1_500);
                    let joined = join(house.options(&address, client), tokio::time::sleep(life));
                    if let Some(summary) = joined.await.unwrap() {
                        return summary;
                    }
                }
            })
        })
        .collect();
    let end = within(async {
        loop {
            let life = Duration::from_millis(200 + rng.next_u64() % 2_000);
            let server = house.serve().await;
            if let Some(end) = server.finish(tokio::time::sleep(life)).await.unwrap() {
                return end;
            }
        }
    });
    assert_eq!(end.await.rounds, 5);
    // Its time may have been up before everybody knew.
    let server = house.serve().await;
    for client in clients {
        within(client).await.unwrap();
    }
    server.finish(std::future::ready(())).await.unwrap();
    assert_eq!(house.fingerprint(), house.simulated(), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn accidents_of_every_kind_change_no_bit() {
    let seeds = std::env::var("FORMANT_ACCIDENTS").map_or(3, |count| count.parse().unwrap());
    for seed in 0..seeds {
        let mut house = House::new(3, "scd", "chunk = \"1KiB\"");
        match seed % 3 {
            0 => {}
            1 => house.set("federation", "schedule", "compute-and-wait"),
            _ => house.set("train", "participation", 0.6),
        }
        accidents(house, seed).await;
    }
}
