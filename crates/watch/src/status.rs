//! Asks a server where it stands.

use crate::WatchError;
use formant_network::server::Status;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer.
const LONGEST: u64 = 64 << 20;

/// What the server says whose operators' address this is.
pub fn fetch(address: &str) -> Result<Status, WatchError> {
    let silent = |source| WatchError::Silent { address: address.into(), source };
    let answer = ask(address).map_err(silent)?;
    let other =
        |found: &str| WatchError::NotAServer { address: address.into(), found: found.into() };
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return Err(other("it does not speak HTTP"));
    };
    if !head.starts_with("HTTP/1.1 200") {
        return Err(other(head.lines().next().unwrap_or("an empty answer")));
    }
    serde_json::from_str(body).map_err(|error| other(&error.to_string()))
}

/// One request, in the oldest way there is.
fn ask(address: &str) -> io::Result<String> {
    let mut places = address.to_socket_addrs()?;
    let place = places.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    let mut socket = TcpStream::connect_timeout(&place, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // In one piece: whoever answers the first and closes resets the connection when the rest comes.
    let request = format!("GET /status HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    socket.take(LONGEST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
