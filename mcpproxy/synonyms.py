"""Words that people use for what tools call otherwise, and words that say nothing.

A short table of the trade, not a thesaurus: an entry earns its place when two groups of tool
makers, or people and tool makers, use different words for one thing.
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a about all also an and any anything are as at be been but by can could did do does doing done
    each else ever every everything for from give go got had has have having he her here hers him his how i
    if in into is it its just keep keeps know let like likes made make me more most my myself need
    needed needs new not now of off ok on once one only or other our ours out over own please she
    should so some somebody someone something sort such takes tell than that the their them then
    there these they thing things this those to too tool tools up us use used useful using very
    want wanted wants was way we were what whatever when where whether which while who whose why
    will with within without would you your yours function functions api method whenever yet
    d l le la les un une des du de et en el los las una del al y der die das ein eine und mit von
    """.split()
)

GROUPS = """
    pr, pull request, merge request
    mr, merge request, pull request
    repo, repository
    repos, repositories
    dir, directory
    dirs, directories
    folder, directory
    k8s, kubernetes, kubectl
    kube, kubernetes, kubectl
    cluster, kubernetes
    container, docker, pod
    db, database
    env, environment
    var, variable
    vars, variables
    config, configuration, settings
    cfg, configuration, config
    conf, configuration, config
    settings, configuration, config
    preferences, configuration, settings
    doc, document, documentation
    docs, documentation, documents
    img, image
    pic, image, picture
    picture, image, screenshot, chart
    photo, image
    screenshot, capture screen, snapshot
    screengrab, screenshot
    snapshot, screenshot
    graph, chart, plot
    plot, chart, graph
    diagram, chart, graph
    visualize, chart, generate chart
    draw, chart, generate, diagram
    msg, message
    msgs, messages
    chat, message, channel
    dm, message
    text, message
    mail, email
    notify, notification, alert
    alert, notification, monitor
    watch, monitor
    bug, issue
    ticket, issue
    defect, issue
    problem, issue, error
    error, exception
    req, request
    reqs, requests
    res, response, resource
    resp, response
    auth, authentication, authorization
    login, authentication
    cmd, command
    shell, command, terminal
    terminal, command, shell
    exec, execute
    run, execute
    execute, run
    launch, start
    stop, kill, terminate
    kill, terminate, stop
    abort, stop, kill
    del, delete
    rm, remove, delete
    delete, remove
    remove, delete
    erase, delete, remove
    discard, reset, restore, clean
    undo, revert, reset
    revert, reset, undo
    rollback, rollout undo
    cancel, abort
    mv, move
    rename, move
    cp, copy
    clone, copy
    duplicate, copy
    ls, list
    show, list, get, view
    view, get, show
    see, list, get, view
    display, show, view
    fetch, get, retrieve
    retrieve, get, fetch
    read, get
    get, retrieve
    lookup, get, search
    look, get, search
    find, search
    search, find
    query, search
    grep, search
    browse, navigate
    visit, navigate, open
    url, address
    link, url, relation
    address, url
    website, web, page, url
    site, web, page
    webpage, web page
    web, page, url
    browser, page
    tab, page
    click, press
    type, fill
    form, fill
    scrape, crawl, extract
    crawl, scrape
    extract, scrape
    download, fetch, get
    upload, push, create file
    write, create, edit
    save, write, create
    edit, update, modify
    modify, update, edit
    change, update, edit, diff
    changed, diff, modified
    changes, diff
    update, edit, modify
    patch, update
    add, create
    create, add, new
    make, create
    generate, create
    post, send, create
    publish, post, push
    send, post
    reply, respond, answer
    react, reaction
    emoji, reaction
    comment, review
    review, comment
    note, annotation, observation
    highlight, annotate
    annotate, annotation, highlight
    member, user
    person, user
    people, users
    account, user
    profile, user
    room, channel
    conversation, thread, channel
    weather, forecast
    tz, timezone
    time, date
    clock, time
    today, current
    now, current
    current, now
    temp, temporary
    tmp, temporary
    info, information, details
    details, information
    metadata, info
    stats, statistics
    perf, performance
    speed, performance
    cpu, processor
    mem, memory
    memory, ram
    ram, memory
    proc, process
    procs, processes
    task, process
    log, logs
    logs, log
    history, log
    version, revision
    revision, version
    commit, save
    branch, checkout
    checkout, switch
    stage, add
    sql, query
    insert, write
    select, read query
    schema, describe, structure
    describe, schema
    columns, describe table
    calculate, compute, evaluate
    compute, calculate
    math, calculate, expression
    sum, add
    plus, add
    entity, node
    node, entity
    relation, link, edge
    connect, relation, link
    knowledge, graph
    think, reasoning, thought
    reason, thinking
    library, package, docs
    package, library
    dependency, package
    lint, eslint
    js, javascript
    ts, typescript
    py, python
    md, markdown
    pdf, document
    map, geo
    pie, chart
    resize, viewport
    device, emulate
    mobile, emulate
    offline, network
    hover, mouse
    scroll, mouse
    upscale, scale
    replicas, scale
    research, search
    investigate, research
    summarize, extract
    translate, convert
    convert, transform
    concat, append, merge
    combine, merge
    join, merge
    compare, diff
    difference, diff
    blame, history
    release, tag
    label, tag
    star, favorite
    size, bytes
    tree, directory
    path, file
    file, path
    content, contents
    blob, file
    stdin, input
    sleep, wait
    wait, delay
    secret, credential
    token, secret
    capture, screenshot
    ecran, screen, screenshot
    pantalla, screen, screenshot
    captura, screenshot
    bildschirmfoto, screenshot
    fichier, file
    fichiers, files
    archivo, file
    archivos, files
    datei, file
    dateien, files
    dossier, directory
    carpeta, directory
    ordner, directory
    creer, create
    crear, create
    erstellen, create
    anlegen, create
    supprimer, delete
    borrar, delete
    eliminar, delete
    loschen, delete
    rechercher, search
    chercher, search
    buscar, search
    suchen, search
    suche, search
    lire, read
    leer, read
    lesen, read
    ecrire, write
    escribir, write
    schreiben, write
    envoyer, send, post
    enviar, send, post
    senden, send, post
    mensaje, message
    mensajes, messages
    nachricht, message
    nachrichten, messages
    canal, channel
    kanal, channel
    lister, list
    listar, list
    mostrar, list, show
    afficher, list, show
    montrer, list, show
    zeigen, list, show
    zeige, list, show
    auflisten, list
    ouvrir, open
    abrir, open
    offnen, open
    fermer, close
    cerrar, close
    schliessen, close
    utilisateur, user
    usuario, user
    benutzer, user
    seite, page
    pagina, page
    heure, time
    hora, time
    uhrzeit, time
    base, database
    datenbank, database
    tabla, table
    tabelle, table
    depot, repository
    repositorio, repository
    rama, branch
    branche, branch
    zweig, branch
    graphique, chart
    grafico, chart
    diagramm, chart
    correo, email
    telecharger, download
    descargar, download
    herunterladen, download
    ejecutar, run, execute
    executer, run, execute
    ausfuhren, run, execute
    modifier, edit, update
    actualizar, update
    aktualisieren, update
    bild, image
    imagen, image
    erreur, error
    fehler, error, issue
    problema, issue
"""
"""Each line: a word, and what else it may be called, the likeliest first."""


def table(text: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for line in text.strip().splitlines():
        word, *meanings = (part.strip() for part in line.split(","))
        found[word] = tuple(meanings)
    return found


SYNONYMS = table(GROUPS)
